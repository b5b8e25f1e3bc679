/* The C code of units: what FMI 2.0 and 3.0 share; fmi2.c and fmi3.c have the functions of each.

   Marks of the form @NAME@ are replaced; tb_step, tb_rates, tb_tables and the derivatives of the
   latter two are kernels. All that a tool can name is one array: commands, discrete states, states,
   what follows from these (rates and sensors), parameters. */
#include <stdbool.h>
#include <stdlib.h>
#if defined(__x86_64__) || defined(_M_X64)
#include <cpuid.h>
#endif
#ifdef _WIN32
#define FMI __declspec(dllexport)
#else
#define FMI __attribute__((visibility("default")))
#endif
/* whether the processor has what this code was compiled for: fused multiply-add, AVX2 */
static int tb_able(void)
{
#if (defined(__x86_64__) || defined(_M_X64))
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 12)) || !(c & (1u << 28))) return 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & (1u << 5));
#else
    return 1;
#endif
}
#define tb_old "this processor lacks AVX2 or fused multiply-add, which this unit was compiled for"
enum { OK = 0, DISCARD = 2, ERROR = 3 };
/* places: commands, then discrete states and states, what follows from them, parameters */
enum { COMMANDS = @COMMANDS@, STATES = @STATES@, NAMED = @NAMED@, COUNT = @COUNT@ };
enum { FIXED_START = @FIXED_START@, ROWS = @ROWS@ };
typedef void *Handle;
typedef unsigned int Reference;
typedef const char *Text;
typedef struct { double x[COUNT + 1], t[ROWS + 1], begin, done; int stale; } Data;
typedef struct { Data d; void *env; void *log; const char *name; int logging; } Unit;
static const double tb_start[COUNT + 1] = { @START@ };
static const double tb_rows[ROWS + 1] = { @TABLES@ };
static const double tb_low[COUNT - NAMED + 1] = { @LOWER@ };
static const char tb_open[COUNT - NAMED + 1] = { @POSITIVE@ };

static void tb_say(const Unit *me, Text text);
static int tb_fail(const Unit *me, Text text) { tb_say(me, text); return ERROR; }

static void tb_reset(Unit *me)
{
    memcpy(me->d.x, tb_start, sizeof tb_start);
    memcpy(me->d.t, tb_rows, sizeof tb_rows);
    me->d.begin = @BEGIN@;
    me->d.done = 0.0;
    me->d.stale = 1;
}
static double tb_time(const Unit *me) { return me->d.begin + me->d.done * @DT@; }
/* from named parameters to the tables that kernels read */
#if @HAS_TABLES@
static int tb_named(Unit *me)
{
    const double *in[] = { me->d.x + NAMED };
    double *out[] = { @TABLES_OUT@ };
    return tb_tables(in, out);
}
#else
static int tb_named(Unit *me) { (void)me; return 0; }
#endif
/* rates and sensors, computed when a tool asks for them */
#if @HAS_RATES@
static int tb_update(Unit *me)
{
    if (!me->d.stale) return 0;
    const double time[1] = { tb_time(me) };
    const double *in[] = { @RATES_IN@ };
    double *out[] = { @RATES_OUT@ };
    (void)time;
    if (tb_rates(in, out)) return 1;
    me->d.stale = 0;
    return 0;
}
#else
static int tb_update(Unit *me) { (void)me; return 0; }
#endif
static int tb_get(Unit *me, const Reference *r, size_t n, double *value)
{
    for (size_t k = 0; k < n; ++k) {
        if (r[k] == COUNT) { value[k] = tb_time(me); continue; }
        if (r[k] > COUNT) return tb_fail(me, "no variable of this value reference");
        if (r[k] >= STATES && r[k] < NAMED && tb_update(me))
            return tb_fail(me, "rates or sensors of this state are not finite");
        value[k] = me->d.x[r[k]];
    }
    return OK;
}
static int tb_set(Unit *me, const Reference *r, size_t n, const double *value)
{
    int named = 0;
    for (size_t k = 0; k < n; ++k) {
        const Reference at = r[k];
        if (at >= COUNT || (at >= STATES && at < NAMED))
            return tb_fail(me, "expected an input, a state or a parameter to set");
        if (value[k] - value[k] != 0.0) return tb_fail(me, "expected finite values");
        if (at >= COMMANDS && at < STATES && FIXED_START && value[k] != me->d.x[at])
            return tb_fail(me, "the start of robots with loops or contact was checked at export "
                               "and is fixed: export with q= and v=");
        if (at >= NAMED) {
            const double low = tb_low[at - NAMED];
            if (value[k] < low || (tb_open[at - NAMED] && value[k] <= low))
                return tb_fail(me, "a parameter is below its least value");
            named = 1;
        }
        me->d.x[at] = value[k];
    }
    me->d.stale = 1;
    if (named && tb_named(me)) return tb_fail(me, "parameters overflow");
    return OK;
}
static int tb_advance(Unit *me, double time, double length)
{
    const double steps = length / @DT@, whole = floor(steps + 0.5);
    if (!(whole >= 1.0) || fabs(steps - whole) > 1e-6 * whole)
        return tb_fail(me, "expected a communication step of whole steps of @DT_TEXT@ s");
    if (!(fabs(time - tb_time(me)) <= 0.01 * @DT@ + 1e-9 * fabs(time)))
        return tb_fail(me, "expected the communication point at which the last step ended");
    me->d.stale = 1;
    for (double k = 0.0; k < whole; k += 1.0) {
        const double clock[4] = { me->d.begin, @DT@, @DT@, me->d.done };
        double before[STATES + 1];
        memcpy(before, me->d.x, STATES * sizeof(double));
        const double *in[] = { @IN@ };
        double *out[] = { @OUT@ };
        (void)clock;
        if (tb_step(in, out)) {
            memcpy(me->d.x, before, STATES * sizeof(double));
            return tb_fail(me, "a step gave a value that is not finite; the state is that "
                               "before it");
        }
        me->d.done += 1.0;
    }
    return OK;
}
static int tb_save(const Unit *me, void **s)
{
    if (!*s) *s = malloc(sizeof(Data));
    if (!*s) return tb_fail(me, "no memory");
    memcpy(*s, &me->d, sizeof(Data));
    return OK;
}
static int tb_unpack(const Unit *me, const unsigned char *b, size_t n, void **s)
{
    if (n != sizeof(Data)) return tb_fail(me, "expected a state of this unit");
    if (!*s) *s = malloc(n);
    if (!*s) return tb_fail(me, "no memory");
    memcpy(*s, b, n);
    return OK;
}
static int tb_pack(const Unit *me, const void *s, unsigned char *b, size_t n)
{
    if (n < sizeof(Data)) return tb_fail(me, "expected more room for the state");
    memcpy(b, s, sizeof(Data));
    return OK;
}
/* directional derivatives, or why there are none */
#if @HAS_DERIVATIVES@
/* change of unknowns along a direction of commands, states and parameters, at this point */
static int tb_directional(const Unit *me, const Reference *unknown, size_t nz,
                          const Reference *known, size_t nv, const double *seed, double *found)
{
    double dx[COUNT + 1], dt[ROWS + 1];
    memset(dx, 0, sizeof dx);
    memset(dt, 0, sizeof dt);
    for (size_t k = 0; k < nv; ++k) {
        if (known[k] >= COUNT || (known[k] >= STATES && known[k] < NAMED))
            return tb_fail(me, "expected inputs, states or parameters as knowns");
        dx[known[k]] += seed[k];
    }
    @TABLES_CHANGE@
    const double time[1] = { tb_time(me) };
    const double *in[] = { @CHANGE_IN@ };
    double *out[] = { @CHANGE_OUT@ };
    (void)time; (void)dt;
    if (tb_change(in, out)) return tb_fail(me, "derivatives of this state are not finite");
    for (size_t k = 0; k < nz; ++k) {
        if (unknown[k] >= COUNT) return tb_fail(me, "expected outputs or rates as unknowns");
        found[k] = dx[unknown[k]];
    }
    return OK;
}
#else
static int tb_directional(const Unit *me, const Reference *unknown, size_t nz,
                          const Reference *known, size_t nv, const double *seed, double *found)
{
    (void)unknown; (void)nz; (void)known; (void)nv; (void)seed; (void)found;
    return tb_fail(me, "rigid contact has impulses, no accelerations: no derivatives");
}
#endif

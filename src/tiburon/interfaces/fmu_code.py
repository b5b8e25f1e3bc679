"""The C code of units: what FMI 2.0 and 3.0 share, and the functions of each.

Marks of the form @NAME@ are replaced; `tb_step`, `tb_rates`, `tb_tables` and the derivatives of the
latter two are kernels. All that a tool can name is one array: commands, discrete states, states,
what follows from these (rates and sensors), parameters.
"""

COMMON = r"""
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
@TABLES_CODE@
@RATES_CODE@
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
@DERIVATIVES_CODE@
"""

TABLES = {
    True: r"""
static int tb_named(Unit *me)
{
    const double *in[] = { me->d.x + NAMED };
    double *out[] = { @TABLES_OUT@ };
    return tb_tables(in, out);
}
""",
    False: "static int tb_named(Unit *me) { (void)me; return 0; }",
}
"""From named parameters to the tables that kernels read; without any."""

RATES = {
    True: r"""
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
""",
    False: "static int tb_update(Unit *me) { (void)me; return 0; }",
}
"""Rates and sensors, computed when a tool asks for them; without any."""

DERIVATIVES = {
    True: r"""
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
""",
    False: r"""
static int tb_directional(const Unit *me, const Reference *unknown, size_t nz,
                          const Reference *known, size_t nv, const double *seed, double *found)
{
    (void)unknown; (void)nz; (void)known; (void)nv; (void)seed; (void)found;
    return tb_fail(me, "rigid contact has impulses, no accelerations: no derivatives");
}
""",
}
"""Directional derivatives; why there are none."""

FMI2 = r"""
typedef struct {
    void (*log)(void *env, Text name, int status, Text category, Text text, ...);
    void *(*allocate)(size_t, size_t);
    void (*release)(void *);
    void (*finished)(void *, int);
    void *env;
} Calls;
static void tb_say(const Unit *me, Text text)
{
    void (*log)(void *, Text, int, Text, Text, ...) = 0;
    memcpy(&log, &me->log, sizeof log);
    if (log) log(me->env, me->name, ERROR, "logStatusError", "%s", text);
}
FMI Text fmi2GetTypesPlatform(void) { return "default"; }
FMI Text fmi2GetVersion(void) { return "2.0"; }
FMI int fmi2SetDebugLogging(Handle h, int on, size_t n, const Text *which)
{ ((Unit *)h)->logging = on; (void)n; (void)which; return OK; }
FMI Handle fmi2Instantiate(Text name, int kind, Text identity, Text place, const void *calls,
                           int visible, int logging)
{
    Unit *me = calloc(1, sizeof *me);
    const Calls *given = calls;
    (void)place; (void)visible;
    if (!me) return 0;
    if (given) { memcpy(&me->log, &given->log, sizeof me->log); me->env = given->env; }
    char *own = malloc(strlen(name ? name : "") + 1);
    if (own) strcpy(own, name ? name : "");
    me->name = own;
    me->logging = logging;
    Text wrong = 0;
    if (kind != 1) wrong = "expected co-simulation: this unit has no model exchange";
    else if (!identity || strcmp(identity, "@IDENTITY@")) wrong = "the guid is another unit's";
    else if (!tb_able()) wrong = tb_old;
    if (wrong) { tb_say(me, wrong); free(own); free(me); return 0; }
    tb_reset(me);
    return me;
}
FMI void fmi2FreeInstance(Handle h)
{
    if (h) free((void *)((Unit *)h)->name);
    free(h);
}
FMI int fmi2SetupExperiment(Handle h, int tol, double tolerance, double start, int ends,
                            double stop)
{
    (void)tol; (void)tolerance; (void)ends; (void)stop;
    ((Unit *)h)->d.begin = start;
    ((Unit *)h)->d.stale = 1;
    return OK;
}
FMI int fmi2EnterInitializationMode(Handle h) { (void)h; return OK; }
FMI int fmi2ExitInitializationMode(Handle h) { (void)h; return OK; }
FMI int fmi2Terminate(Handle h) { (void)h; return OK; }
FMI int fmi2Reset(Handle h) { tb_reset(h); return OK; }
FMI int fmi2GetReal(Handle h, const Reference *r, size_t n, double *v)
{ return tb_get(h, r, n, v); }
FMI int fmi2SetReal(Handle h, const Reference *r, size_t n, const double *v)
{ return tb_set(h, r, n, v); }
#define TB_NONE(NAME, T) \
    FMI int NAME(Handle h, const Reference *r, size_t n, T v) \
    { (void)h; (void)r; (void)v; return n ? ERROR : OK; }
TB_NONE(fmi2GetInteger, int *)
TB_NONE(fmi2GetBoolean, int *)
TB_NONE(fmi2GetString, Text *)
TB_NONE(fmi2SetInteger, const int *)
TB_NONE(fmi2SetBoolean, const int *)
TB_NONE(fmi2SetString, const Text *)
FMI int fmi2GetFMUstate(Handle h, void **s) { return tb_save(h, s); }
FMI int fmi2SetFMUstate(Handle h, void *s) { memcpy(&((Unit *)h)->d, s, sizeof(Data)); return OK; }
FMI int fmi2FreeFMUstate(Handle h, void **s) { (void)h; free(*s); *s = 0; return OK; }
FMI int fmi2SerializedFMUstateSize(Handle h, void *s, size_t *n)
{ (void)h; (void)s; *n = sizeof(Data); return OK; }
FMI int fmi2SerializeFMUstate(Handle h, void *s, unsigned char *b, size_t n)
{ return tb_pack(h, s, b, n); }
FMI int fmi2DeSerializeFMUstate(Handle h, const unsigned char *b, size_t n, void **s)
{ return tb_unpack(h, b, n, s); }
FMI int fmi2GetDirectionalDerivative(Handle h, const Reference *z, size_t nz, const Reference *v,
                                     size_t nv, const double *dv, double *dz)
{ return tb_directional(h, z, nz, v, nv, dv, dz); }
FMI int fmi2SetRealInputDerivatives(Handle h, const Reference *r, size_t n, const int *o,
                                    const double *v)
{ (void)h; (void)r; (void)o; (void)v; return n ? ERROR : OK; }
FMI int fmi2GetRealOutputDerivatives(Handle h, const Reference *r, size_t n, const int *o,
                                     double *v)
{ (void)h; (void)r; (void)o; (void)v; return n ? ERROR : OK; }
FMI int fmi2DoStep(Handle h, double time, double length, int keep)
{ (void)keep; return tb_advance(h, time, length); }
FMI int fmi2CancelStep(Handle h) { (void)h; return ERROR; }
#define TB_STATUS(NAME, T) \
    FMI int NAME(Handle h, int k, T v) { (void)h; (void)k; (void)v; return DISCARD; }
TB_STATUS(fmi2GetStatus, int *)
TB_STATUS(fmi2GetRealStatus, double *)
TB_STATUS(fmi2GetIntegerStatus, int *)
TB_STATUS(fmi2GetBooleanStatus, int *)
TB_STATUS(fmi2GetStringStatus, Text *)
"""

FMI3 = r"""
static void tb_say(const Unit *me, Text text)
{
    void (*log)(void *, int, Text, Text) = 0;
    memcpy(&log, &me->log, sizeof log);
    if (log) log(me->env, ERROR, "logStatusError", text);
}
FMI Text fmi3GetVersion(void) { return "3.0"; }
FMI int fmi3SetDebugLogging(Handle h, bool on, size_t n, const Text *which)
{ ((Unit *)h)->logging = on; (void)n; (void)which; return OK; }
FMI Handle fmi3InstantiateCoSimulation(
    Text name, Text identity, Text place, bool visible, bool logging, bool events, bool early,
    const Reference *between, size_t count, void *env, void *log, void *update)
{
    Unit *me = calloc(1, sizeof *me);
    (void)name; (void)place; (void)visible; (void)early; (void)between; (void)update;
    if (!me) return 0;
    me->log = log;
    me->env = env;
    me->logging = logging;
    Text wrong = 0;
    if (!identity || strcmp(identity, "@IDENTITY@")) wrong = "the token is that of another unit";
    else if (events) wrong = "expected eventModeUsed to be false: this unit has no events";
    else if (count) wrong = "expected no intermediate variables: this unit gives none";
    else if (!tb_able()) wrong = tb_old;
    if (wrong) { tb_say(me, wrong); free(me); return 0; }
    tb_reset(me);
    return me;
}
FMI Handle fmi3InstantiateModelExchange(Text name, Text identity, Text place, bool visible,
                                        bool logging, void *env, void *log)
{
    (void)name; (void)identity; (void)place; (void)visible; (void)logging; (void)env; (void)log;
    return 0;
}
FMI Handle fmi3InstantiateScheduledExecution(Text name, Text identity, Text place, bool visible,
                                             bool logging, void *env, void *log, void *a, void *b,
                                             void *c)
{
    (void)name; (void)identity; (void)place; (void)visible; (void)logging; (void)env; (void)log;
    (void)a; (void)b; (void)c;
    return 0;
}
FMI void fmi3FreeInstance(Handle h) { free(h); }
FMI int fmi3EnterInitializationMode(Handle h, bool tol, double tolerance, double start, bool ends,
                                    double stop)
{
    (void)tol; (void)tolerance; (void)ends; (void)stop;
    ((Unit *)h)->d.begin = start;
    ((Unit *)h)->d.stale = 1;
    return OK;
}
#define TB_PLAIN(NAME, STATUS) FMI int NAME(Handle h) { (void)h; return STATUS; }
TB_PLAIN(fmi3ExitInitializationMode, OK)
TB_PLAIN(fmi3EnterEventMode, ERROR)
TB_PLAIN(fmi3Terminate, OK)
TB_PLAIN(fmi3EnterConfigurationMode, ERROR)
TB_PLAIN(fmi3ExitConfigurationMode, ERROR)
TB_PLAIN(fmi3EvaluateDiscreteStates, ERROR)
TB_PLAIN(fmi3EnterContinuousTimeMode, ERROR)
TB_PLAIN(fmi3EnterStepMode, ERROR)
FMI int fmi3Reset(Handle h) { tb_reset(h); return OK; }
FMI int fmi3GetFloat64(Handle h, const Reference *r, size_t n, double *v, size_t m)
{ return m == n ? tb_get(h, r, n, v) : tb_fail(h, "expected one value for each reference"); }
FMI int fmi3SetFloat64(Handle h, const Reference *r, size_t n, const double *v, size_t m)
{ return m == n ? tb_set(h, r, n, v) : tb_fail(h, "expected one value for each reference"); }
#define TB_NONE(NAME, T) \
    FMI int fmi3Get##NAME(Handle h, const Reference *r, size_t n, T *v, size_t m) \
    { (void)h; (void)r; (void)v; (void)m; return n ? ERROR : OK; } \
    FMI int fmi3Set##NAME(Handle h, const Reference *r, size_t n, const T *v, size_t m) \
    { (void)h; (void)r; (void)v; (void)m; return n ? ERROR : OK; }
TB_NONE(Float32, float)
TB_NONE(Int8, int8_t)
TB_NONE(UInt8, uint8_t)
TB_NONE(Int16, int16_t)
TB_NONE(UInt16, uint16_t)
TB_NONE(Int32, int32_t)
TB_NONE(UInt32, uint32_t)
TB_NONE(Int64, int64_t)
TB_NONE(UInt64, uint64_t)
TB_NONE(Boolean, bool)
TB_NONE(String, Text)
FMI int fmi3GetBinary(Handle h, const Reference *r, size_t n, size_t *s, const uint8_t **v,
                      size_t m)
{ (void)h; (void)r; (void)s; (void)v; (void)m; return n ? ERROR : OK; }
FMI int fmi3SetBinary(Handle h, const Reference *r, size_t n, const size_t *s,
                      const uint8_t *const *v, size_t m)
{ (void)h; (void)r; (void)s; (void)v; (void)m; return n ? ERROR : OK; }
#define TB_CLOCK(NAME, T) \
    FMI int NAME(Handle h, const Reference *r, size_t n, T *v) \
    { (void)h; (void)r; (void)v; return n ? ERROR : OK; }
TB_CLOCK(fmi3GetClock, bool)
TB_CLOCK(fmi3SetClock, const bool)
TB_CLOCK(fmi3GetShiftDecimal, double)
TB_CLOCK(fmi3SetIntervalDecimal, const double)
TB_CLOCK(fmi3SetShiftDecimal, const double)
#define TB_CLOCKS(NAME, T, U) \
    FMI int NAME(Handle h, const Reference *r, size_t n, T *v, U *w) \
    { (void)h; (void)r; (void)v; (void)w; return n ? ERROR : OK; }
TB_CLOCKS(fmi3GetIntervalDecimal, double, int)
TB_CLOCKS(fmi3GetShiftFraction, uint64_t, uint64_t)
TB_CLOCKS(fmi3SetIntervalFraction, const uint64_t, const uint64_t)
TB_CLOCKS(fmi3SetShiftFraction, const uint64_t, const uint64_t)
FMI int fmi3GetIntervalFraction(Handle h, const Reference *r, size_t n, uint64_t *v, uint64_t *w,
                                int *q)
{ (void)h; (void)r; (void)v; (void)w; (void)q; return n ? ERROR : OK; }
FMI int fmi3GetNumberOfVariableDependencies(Handle h, Reference r, size_t *n)
{ (void)r; (void)n; return tb_fail(h, "this unit does not list dependencies"); }
FMI int fmi3GetVariableDependencies(Handle h, Reference r, size_t *a, Reference *b, size_t *c,
                                    int *d, size_t n)
{
    (void)r; (void)a; (void)b; (void)c; (void)d; (void)n;
    return tb_fail(h, "this unit does not list dependencies");
}
FMI int fmi3GetFMUState(Handle h, void **s) { return tb_save(h, s); }
FMI int fmi3SetFMUState(Handle h, void *s) { memcpy(&((Unit *)h)->d, s, sizeof(Data)); return OK; }
FMI int fmi3FreeFMUState(Handle h, void **s) { (void)h; free(*s); *s = 0; return OK; }
FMI int fmi3SerializedFMUStateSize(Handle h, void *s, size_t *n)
{ (void)h; (void)s; *n = sizeof(Data); return OK; }
FMI int fmi3SerializeFMUState(Handle h, void *s, uint8_t *b, size_t n)
{ return tb_pack(h, s, b, n); }
FMI int fmi3DeserializeFMUState(Handle h, const uint8_t *b, size_t n, void **s)
{ return tb_unpack(h, b, n, s); }
FMI int fmi3GetDirectionalDerivative(Handle h, const Reference *z, size_t nz, const Reference *v,
                                     size_t nv, const double *seed, size_t ns, double *found,
                                     size_t nf)
{
    if (ns != nv || nf != nz) return tb_fail(h, "expected one number for each reference");
    return tb_directional(h, z, nz, v, nv, seed, found);
}
FMI int fmi3GetAdjointDerivative(Handle h, const Reference *z, size_t nz, const Reference *v,
                                 size_t nv, const double *seed, size_t ns, double *found, size_t nf)
{
    (void)z; (void)nz; (void)v; (void)nv; (void)seed; (void)ns; (void)found; (void)nf;
    return tb_fail(h, "this unit has directional derivatives, no adjoint ones");
}
FMI int fmi3UpdateDiscreteStates(Handle h, bool *a, bool *b, bool *c, bool *d, bool *e, double *f)
{ (void)h; (void)a; (void)b; (void)c; (void)d; (void)e; (void)f; return ERROR; }
FMI int fmi3CompletedIntegratorStep(Handle h, bool keep, bool *a, bool *b)
{ (void)h; (void)keep; (void)a; (void)b; return ERROR; }
FMI int fmi3SetTime(Handle h, double t) { (void)h; (void)t; return ERROR; }
FMI int fmi3SetContinuousStates(Handle h, const double *x, size_t n)
{ (void)h; (void)x; (void)n; return ERROR; }
#define TB_EXCHANGE(NAME) \
    FMI int NAME(Handle h, double *x, size_t n) { (void)h; (void)x; (void)n; return ERROR; }
TB_EXCHANGE(fmi3GetContinuousStateDerivatives)
TB_EXCHANGE(fmi3GetEventIndicators)
TB_EXCHANGE(fmi3GetContinuousStates)
TB_EXCHANGE(fmi3GetNominalsOfContinuousStates)
FMI int fmi3GetNumberOfEventIndicators(Handle h, size_t *n) { (void)h; (void)n; return ERROR; }
FMI int fmi3GetNumberOfContinuousStates(Handle h, size_t *n) { (void)h; (void)n; return ERROR; }
FMI int fmi3GetOutputDerivatives(Handle h, const Reference *r, size_t n, const int32_t *o,
                                 double *v, size_t m)
{ (void)h; (void)r; (void)o; (void)v; (void)m; return n ? ERROR : OK; }
FMI int fmi3DoStep(Handle h, double time, double length, bool keep, bool *event, bool *ends,
                   bool *early, double *last)
{
    const int status = tb_advance(h, time, length);
    (void)keep;
    *event = false;
    *ends = false;
    *early = false;
    *last = tb_time(h);
    return status;
}
FMI int fmi3ActivateModelPartition(Handle h, Reference r, double time)
{ (void)h; (void)r; (void)time; return ERROR; }
"""

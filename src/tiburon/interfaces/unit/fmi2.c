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

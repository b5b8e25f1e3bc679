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

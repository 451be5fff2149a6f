/* The module: its types, and the facts by which Python recognises a core that fits. */
#include "core.h"

PyTypeObject *slots_type, *timeline_type, *bucket_type, *totals_type, *thread_type, *state_type, *marks_type;
PyObject *plain_step, *plain_call, *monotonic_ns, *unknown_float, *failures, *never;
#define DEFINE(name) PyObject *name_##name;
NAMES(DEFINE)

static int make_names(void)
{
#define MAKE(name) \
    if ((name_##name = PyUnicode_InternFromString(#name)) == NULL) \
        return -1;
    NAMES(MAKE)
    return 0;
}

/* use(Step, TimedCall, monotonic_ns, unknown, failures, never): the plain core's classes and values. */
static PyObject *use(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *step, *call, *clock, *unknown, *classes, *function;
    if (!PyArg_ParseTuple(args, "OOOOO!O", &step, &call, &clock, &unknown, &PyTuple_Type,
            &classes, &function))
        return NULL;
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError, "it runs in the main interpreter only");
        return NULL;
    }
    PyObject **places[] = {&plain_step, &plain_call, &monotonic_ns, &unknown_float, &failures, &never};
    PyObject *values[] = {step, call, clock, unknown, classes, function};
    for (size_t place = 0; place < sizeof places / sizeof *places; place++)
        replace(places[place], Py_NewRef(values[place]));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"use", use, METH_VARARGS, "Use the plain core's classes for all that is rare."}, {NULL}};

static int add_type(PyObject *module, const char *name, PyType_Spec *spec, PyTypeObject **type)
{
    PyObject *made = PyType_FromSpec(spec);
    if (made == NULL || PyModule_AddObjectRef(module, name, made) != 0) {
        Py_XDECREF(made);
        return -1;
    }
    if (type != NULL)
        *type = (PyTypeObject *)made; /* for as long as the process lives */
    else
        Py_DECREF(made);
    return 0;
}

static PyObject *layout(void)
{
    return Py_BuildValue("{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:s,s:i,s:s,s:(iiiiii),s:(iiii),s:(ii),s:(ii)}",
        "header", HEADER_BYTES, "slot", SLOT_BYTES, "live", LIVE_LINE, "collective_line",
        COLLECTIVE_LINE, "head", HEAD, "phases", PHASES, "step", KIND_STEP, "step_format",
        "<QHHIQQQQQQQQQQQIHHff4x", "collective", KIND_COLLECTIVE, "collective_format",
        "<QHHIQIHIQQQQ58x", "buckets", OTHER, CHECKPOINT, EVAL, COLLECTIVE, PIPELINE_WAIT, BUCKETS,
        "flags", FLAG_FIRST, FLAG_AFTER_PAUSE, FLAG_UNFINISHED,
        FLAG_CAPTURED << 8 | FLAG_INCOMPLETE, "sampled", SAMPLED_EVERY,
        SAMPLED_REPEATS, "marks", MERGED_NS, ASKED_AFTER_NS);
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "The compiled core of the hooks.", -1, functions};

PyMODINIT_FUNC PyInit__native(void)
{
    /* Imported again under another name, it is the same module: objects of its types exist. */
    static PyObject *only;
    if (only != NULL)
        return Py_NewRef(only);
    const uint16_t order = 1;
    if (*(const unsigned char *)&order != 1) {
        PyErr_SetString(PyExc_ImportError, "it is for little-endian machines");
        return NULL;
    }
    PyObject **places[] = {&plain_step, &plain_call, &monotonic_ns, &unknown_float, &failures, &never};
    for (size_t place = 0; place < sizeof places / sizeof *places; place++)
        replace(places[place], Py_NewRef(Py_None)); /* until `use` */
    make_checksums();
    PyObject *module = PyModule_Create(&definition), *facts = NULL;
    if (module == NULL || make_names() != 0 || (facts = layout()) == NULL
        || PyModule_AddObjectRef(module, "LAYOUT", facts) != 0
        || add_type(module, "Slots", &slots_spec, &slots_type) != 0
        || add_type(module, "CollectiveTotals", &totals_spec, &totals_type) != 0
        || add_type(module, "Bucket", &bucket_spec, &bucket_type) != 0
        || add_type(module, "Timeline", &timeline_spec, &timeline_type) != 0
        || add_type(module, "Thread", &thread_spec, &thread_type) != 0
        || add_type(module, "State", &state_spec, &state_type) != 0
        || add_type(module, "Nothing", &nothing_spec, NULL) != 0
        || add_type(module, "EventMarks", &marks_spec, &marks_type) != 0
        || add_type(module, "Step", &step_spec, NULL) != 0
        || add_type(module, "TimedCall", &timed_call_spec, NULL) != 0)
        Py_CLEAR(module);
    Py_XDECREF(facts);
    only = Py_XNewRef(module);
    return module;
}

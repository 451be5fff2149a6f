/* A ring's slots: a record is stored whole, and counted only then. */
#include "core.h"

static uint32_t checksums[8][256];

/* The tables of CRC-32 as zlib has it, for eight bytes at a time. */
void make_checksums(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++)
            sum = sum & 1 ? 0xEDB88320u ^ (sum >> 1) : sum >> 1;
        checksums[0][byte] = sum;
    }
    for (int table = 1; table < 8; table++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t sum = checksums[table - 1][byte];
            checksums[table][byte] = (sum >> 8) ^ checksums[0][sum & 0xFF];
        }
}

static uint32_t checksum(const unsigned char *bytes, int count)
{
    uint32_t sum = 0xFFFFFFFFu;
    for (; count >= 8; count -= 8, bytes += 8) {
        uint32_t low, high;
        memcpy(&low, bytes, 4);
        memcpy(&high, bytes + 4, 4);
        low ^= sum;
        sum = checksums[7][low & 0xFF] ^ checksums[6][low >> 8 & 0xFF]
            ^ checksums[5][low >> 16 & 0xFF] ^ checksums[4][low >> 24]
            ^ checksums[3][high & 0xFF] ^ checksums[2][high >> 8 & 0xFF]
            ^ checksums[1][high >> 16 & 0xFF] ^ checksums[0][high >> 24];
    }
    while (count--)
        sum = (sum >> 8) ^ checksums[0][(sum ^ *bytes++) & 0xFF];
    return ~sum;
}

/* Little-endian, as the slots are; `module.c` refuses machines with another order. */
unsigned char *put(unsigned char *place, uint64_t value, int bytes)
{
    memcpy(place, &value, bytes);
    return place + bytes;
}

/* The start of a slot; `append_packed` adds the record's number. */
unsigned char *put_head(unsigned char *slot, int kind, int64_t step, int64_t now)
{
    memset(slot, 0, SLOT_BYTES);
    unsigned char *place = put(slot + 8, (uint64_t)kind, 4);
    place = put(place, (uint64_t)step, 4);
    return put(place, (uint64_t)now, 8);
}

/* Store a slot whose number and checksum are missing. No Python code runs. */
int append_packed(Slots *slots, unsigned char *slot)
{
    if (slots->words == NULL) {
        PyErr_SetString(PyExc_ValueError, "mmap closed or invalid");
        return -1;
    }
    uint64_t number = slots->written + 1;
    unsigned char *place = (unsigned char *)slots->words + HEADER_BYTES
        + slots->written % slots->capacity * SLOT_BYTES;
    put(slot, number, 8);
    put(slot + SLOT_BYTES - 4, checksum(slot, SLOT_BYTES - 4), 4);
    memcpy(place, slot, SLOT_BYTES);
    slots->written = number;
    __atomic_store_n(slots->words + HEAD, number, __ATOMIC_RELEASE);
    return 0;
}

/* Pack through the record kind's `struct.Struct`, and store it. */
int append_record(Slots *slots, long kind, PyObject *record)
{
    PyObject *key = NULL, *pack = NULL, *head = NULL, *fields = NULL, *packed = NULL;
    int failed = -1;
    if ((key = PyLong_FromLong(kind)) == NULL)
        goto out;
    if ((pack = PyDict_GetItemWithError(slots->packers, key)) == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetObject(PyExc_KeyError, key);
        goto out;
    }
    Py_INCREF(pack);
    if ((head = Py_BuildValue("(KOi)", slots->written + 1, key, 0)) == NULL
        || (fields = PySequence_Concat(head, record)) == NULL
        || (packed = PyObject_Call(pack, fields, NULL)) == NULL)
        goto out;
    char *bytes;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(packed, &bytes, &size) != 0)
        goto out;
    if (size != SLOT_BYTES - 4) {
        PyErr_SetString(PyExc_ValueError, "a packed record has another size than a slot");
        goto out;
    }
    unsigned char slot[SLOT_BYTES];
    memcpy(slot, bytes, SLOT_BYTES - 4);
    failed = append_packed(slots, slot);
out:
    Py_XDECREF(key);
    Py_XDECREF(pack);
    Py_XDECREF(head);
    Py_XDECREF(fields);
    Py_XDECREF(packed);
    return failed;
}

static PyObject *slots_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    PyObject *memory, *packers;
    unsigned long long capacity, written = 0;
    if (!PyArg_ParseTuple(args, "OKO!|K", &memory, &capacity, &PyDict_Type, &packers, &written))
        return NULL;
    Slots *self = (Slots *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    if (PyObject_GetBuffer(memory, &self->memory, PyBUF_WRITABLE) != 0)
        goto failed;
    self->words = self->memory.buf;
    if (capacity == 0 || (uint64_t)self->memory.len / SLOT_BYTES < capacity
        || (uint64_t)self->memory.len < HEADER_BYTES + capacity * SLOT_BYTES) {
        PyErr_SetString(PyExc_ValueError, "the memory is smaller than its slots");
        goto failed;
    }
    if ((uintptr_t)self->memory.buf % sizeof *self->words) {
        PyErr_SetString(PyExc_ValueError, "the memory does not begin at a whole word");
        goto failed;
    }
    self->capacity = capacity;
    self->written = written;
    Py_INCREF(packers);
    self->packers = packers;
    return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

static PyObject *slots_append(Slots *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyTuple_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "append(kind, record): a number and a tuple");
        return NULL;
    }
    long kind = PyLong_AsLong(args[0]);
    if ((kind == -1 && PyErr_Occurred()) || append_record(self, kind, args[1]) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *slots_release(Slots *self, PyObject *Py_UNUSED(none))
{
    if (self->words != NULL) {
        self->words = NULL;
        PyBuffer_Release(&self->memory);
    }
    Py_RETURN_NONE;
}

static void slots_dealloc(PyObject *object)
{
    Slots *self = (Slots *)object;
    if (self->words != NULL)
        PyBuffer_Release(&self->memory);
    Py_XDECREF(self->packers);
    free_object(object);
}

static PyMethodDef slots_methods[] = {
    {"append", (PyCFunction)(void (*)(void))slots_append, METH_FASTCALL,
        "Append one record: its kind, then step, moment in ns and body."},
    {"release", (PyCFunction)slots_release, METH_NOARGS, "Store nothing more."},
    {NULL},
};
static PyMemberDef slots_members[] = {
    {"written", T_ULONGLONG, offsetof(Slots, written), READONLY, "Records written so far."},
    {NULL},
};
static PyType_Slot slots_slots[] = {
    {Py_tp_doc, "The slots of a ring in mapped `memory`."},
    {Py_tp_new, slots_new},
    {Py_tp_dealloc, slots_dealloc},
    {Py_tp_methods, slots_methods},
    {Py_tp_members, slots_members},
    {0, NULL},
};
PyType_Spec slots_spec = {
    "stepwatch.hooks.core._native.Slots", sizeof(Slots), 0, Py_TPFLAGS_DEFAULT, slots_slots};

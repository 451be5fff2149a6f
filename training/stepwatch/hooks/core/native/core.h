/* The compiled core: the paths of every step, with the facts and the bytes of `core/plain`.

   Stable ABI of Python 3.11. Nothing here waits, and no store into the ring is a system call. Python
   code runs only where a comment says so: the interpreter's lock makes all else one unit. */
#ifndef STEPWATCH_CORE_H
#define STEPWATCH_CORE_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

/* Bytes and words of a ring's file: `signals/blackbox/layout.py`; `module.c` shows them to Python,
   which refuses a core with others. */
enum {
    HEADER_BYTES = 4096,
    SLOT_BYTES = 128,
    LIVE_LINE = 128,
    COLLECTIVE_LINE = 136,
    HEAD = 144,
    PHASES = 7,
    OTHER = 0,
    COLLECTIVE = 7,
    PIPELINE_WAIT = 8,
    BUCKETS = 9,
    KIND_STEP = 1,
    KIND_COLLECTIVE = 2,
    FLAG_FIRST = 1,
    FLAG_AFTER_PAUSE = 2,
    FLAG_UNFINISHED = 4,
    CHECKPOINT = 5,
    EVAL = 6,
    FLAG_CAPTURED = 1,
    FLAG_INCOMPLETE = 2,
    MERGED_NS = 5000,
    ASKED_AFTER_NS = 1000000,
    SAMPLED_EVERY = 8,
    SAMPLED_REPEATS = 2,
};
#define INSIDE ((uint64_t)1 << 56)

/* A ring's slots: mapped memory, and the number of records in it. */
typedef struct {
    PyObject_HEAD
    Py_buffer memory;
    uint64_t *words; /* NULL once it is released */
    uint64_t capacity;
    unsigned long long written;
    PyObject *packers; /* a dict: `struct.Struct.pack` by kind */
} Slots;

/* The current step's calls of one operation in one group. */
typedef struct {
    PyObject_HEAD
    uint64_t group;
    int64_t op;
    unsigned long long count;
    unsigned long long nbytes;
    long long exposed_ns;
    long long longest_ns;
    long long first_arrival_ns;
} CollectiveTotals;

typedef struct {
    PyObject_HEAD
    PyObject *weak_references;
    Slots *slots;
    PyObject *clock; /* `time.monotonic_ns` is read without a call through Python */
    PyObject *misuse;
    PyObject *buckets; /* a tuple of Bucket */
    PyObject *marks; /* None while the host alone is timed */
    PyObject *ended;
    char detached;
    uint8_t bucket;
    uint8_t *stack;
    Py_ssize_t depth, room;
    long long since, began, step, microbatches, flags, entered;
    int64_t totals[BUCKETS];
    CollectiveTotals **collectives;
    Py_ssize_t operations, operations_room;
} Timeline;

typedef struct {
    PyObject_HEAD
    Timeline *timeline;
    uint64_t bits;
    uint8_t index;
} Bucket;

typedef struct {
    PyObject_HEAD
    unsigned long ident;
} Thread;

/* What a step reads of the recorder, its subclass in Python. */
typedef struct {
    PyObject_HEAD
    PyObject *ring, *timeline, *thread, *drain_completions;
    long long step_number;
    char began;
} State;

/* An event at each boundary on a device's stream; the base class of `DeviceMarks`. */
typedef struct {
    PyObject_HEAD
    PyObject *stream, *key, *is_capturing, *stream_key, *make, *clock;
    PyObject *events, *moments, *buckets, *keys, *free; /* lists */
    PyObject *counts, *passed_ns; /* dicts */
    long long inferred, merged_until, flags, stride, turn;
    char active, captures, in_collective;
} EventMarks;

extern PyTypeObject *marks_type;
extern PyType_Spec marks_spec;
extern PyObject *failures, *never;

extern PyTypeObject *slots_type, *timeline_type, *bucket_type, *totals_type, *thread_type, *state_type;
extern PyType_Spec slots_spec, timeline_spec, bucket_spec, totals_spec, thread_spec, state_spec;
extern PyType_Spec step_spec, timed_call_spec, nothing_spec;
extern PyObject *plain_step, *plain_call; /* The plain core's classes: they do what is rare. */
extern PyObject *monotonic_ns, *unknown_float;

/* Names of attributes, made once. */
#define NAMES(X) \
    X(active) X(back_to) X(bad) X(calls) X(checks) X(elsewhere) X(enter_collective) X(facts) \
    X(group) X(input_tensor) X(knows_grad_norm) X(knows_loss) X(leave_collective) X(mark) X(nbytes) \
    X(loss) X(pending) X(record)
#define DECLARE(name) extern PyObject *name_##name;
NAMES(DECLARE)

/* ring.c */
void make_checksums(void);
int append_packed(Slots *slots, unsigned char *slot);
int append_record(Slots *slots, long kind, PyObject *record);
unsigned char *put(unsigned char *place, uint64_t value, int bytes);
unsigned char *put_head(unsigned char *slot, int kind, int64_t step, int64_t now);

/* timeline.c: each returns -1 with an exception set, or 0. */
int read_moment(PyObject *clock, int64_t *now);
int read_clock(Timeline *timeline, int64_t *now);
void count(Timeline *timeline, int64_t now);
int count_to(Timeline *timeline, uint8_t bucket, int64_t now);
int arrive(Timeline *timeline, uint64_t group, int64_t op, uint64_t nbytes, int64_t *now);
void step_outside(Timeline *timeline);
int leave_blocked(Timeline *timeline, int64_t *now);
int mark_collective(Timeline *timeline, int64_t now, uint64_t group, int64_t op);
int mark_left(Timeline *timeline);
int bucket_enter(Timeline *timeline, uint8_t index);
int bucket_leave(Timeline *timeline);
int collective_enter(Timeline *timeline, uint64_t group, int64_t op, uint64_t nbytes, int64_t *now);
int collective_leave(Timeline *timeline, uint64_t group, int64_t op, uint64_t nbytes, int64_t arrived);
int step_end(Timeline *timeline, int64_t *now, int64_t *duration, int64_t *totals);

/* collectives.c */
int collective_add(Timeline *timeline, uint64_t group, int64_t op, uint64_t nbytes, int64_t arrived, int64_t now);
int collectives_write(Timeline *timeline, int64_t now);
CollectiveTotals *collective_find(Timeline *timeline, uint64_t group, int64_t op);
void collectives_clear(Timeline *timeline);

/* event_marks.c: each returns -1 with an exception set. */
int marks_mark(EventMarks *marks, int64_t now, int64_t bucket, PyObject *key);
int marks_back_to(EventMarks *marks, int64_t now, int64_t bucket);
int marks_enter_collective(EventMarks *marks, int64_t now, PyObject *key);
int marks_leave_collective(EventMarks *marks, int64_t now, int64_t bucket);

/* timeline_type.c */
int read_numbers(PyObject *const *args, Py_ssize_t given, Py_ssize_t least, Py_ssize_t most, long long *numbers);

/* step_end.c */
typedef struct {
    PyObject_HEAD
    State *recorder;
    PyObject *steps, *guard, *by_name, *evaluation, *numerics, *late, *metrics, *checkpoints, *profiles;
    PyObject *loss, *grad_norm, *tokens;
    char inside;
} Step;
int end_step(Step *step, long long flags);
int is_true(PyObject *owner, PyObject *name);

/* attributes.c */
void replace(PyObject **place, PyObject *value);
PyObject *get_object(PyObject *self, void *offset);
int set_object(PyObject *self, PyObject *value, void *offset);
#define OBJECT(name, type, field, doc) \
    {name, get_object, set_object, doc, (void *)offsetof(type, field)}

void free_object(PyObject *self);
PyObject *totals_list(const int64_t *totals);

static inline PyObject *current_timeline(const State *state)
{
    return state->timeline == NULL ? Py_None : state->timeline;
}

static inline void store(Timeline *timeline, int index, uint64_t value)
{
    uint64_t *words = timeline->slots->words;
    if (!timeline->detached && words != NULL)
        __atomic_store_n(words + index, value, __ATOMIC_RELAXED);
}

#endif

/* A step's time: a stack of buckets whose self times add up to the step. */
#include "core.h"
#include <time.h>

/* The moment in ns. A clock in Python may run any code, so a caller reads it before all else. */
int read_moment(PyObject *clock, int64_t *now)
{
    if (clock == monotonic_ns) {
        struct timespec moment;
        clock_gettime(CLOCK_MONOTONIC, &moment);
        *now = (int64_t)moment.tv_sec * 1000000000 + moment.tv_nsec;
        return 0;
    }
    PyObject *value = PyObject_CallNoArgs(clock);
    if (value == NULL)
        return -1;
    *now = PyLong_AsLongLong(value);
    Py_DECREF(value);
    return *now == -1 && PyErr_Occurred() ? -1 : 0;
}

int read_clock(Timeline *timeline, int64_t *now)
{
    return read_moment(timeline->clock, now);
}

void count(Timeline *timeline, int64_t now)
{
    timeline->totals[timeline->bucket] += now - timeline->since;
    timeline->since = now;
}

static int make_room(Timeline *timeline)
{
    if (timeline->depth == timeline->room) {
        Py_ssize_t room = timeline->room * 2 + 16;
        uint8_t *stack = PyMem_Realloc(timeline->stack, room);
        if (stack == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        timeline->stack = stack;
        timeline->room = room;
    }
    return 0;
}

/* Count to `bucket` from `now` on, inside the current bucket. */
int count_to(Timeline *timeline, uint8_t bucket, int64_t now)
{
    if (make_room(timeline) != 0)
        return -1;
    count(timeline, now);
    timeline->stack[timeline->depth++] = timeline->bucket;
    timeline->bucket = bucket;
    return 0;
}

static void show(Timeline *timeline, int64_t now, uint8_t bucket)
{
    uint64_t bits = bucket < PHASES ? (uint64_t)bucket << 48
        : bucket == PIPELINE_WAIT   ? (uint64_t)OTHER << 48 | INSIDE
                                    : 0;
    store(timeline, LIVE_LINE, (uint64_t)now);
    store(timeline, LIVE_LINE + 1, (uint64_t)timeline->step | bits);
}

/* Call `marks.name(now, value)`; `value` is taken. */
static int mark(Timeline *timeline, PyObject *name, int64_t now, PyObject *value)
{
    PyObject *moment = PyLong_FromLongLong(now), *result = NULL;
    PyObject *marks = Py_NewRef(timeline->marks); /* the call may replace it */
    if (moment != NULL && value != NULL)
        result = PyObject_CallMethodObjArgs(marks, name, moment, value, NULL);
    Py_DECREF(marks);
    Py_XDECREF(moment);
    Py_XDECREF(value);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

/* The core's own marks without a call through Python; NULL if they are another object. */
static EventMarks *own_marks(Timeline *timeline)
{
    PyObject *marks = timeline->marks;
    return PyObject_TypeCheck(marks, marks_type) ? (EventMarks *)Py_NewRef(marks) : NULL;
}

static int mark_entry(Timeline *timeline, uint8_t bucket)
{
    EventMarks *own = own_marks(timeline);
    if (own == NULL)
        return mark(timeline, name_mark, timeline->since, PyLong_FromLong(bucket));
    int failed = marks_mark(own, timeline->since, bucket, Py_None) < 0;
    Py_DECREF((PyObject *)own);
    return failed ? -1 : 0;
}

static int mark_return(Timeline *timeline)
{
    EventMarks *own = own_marks(timeline);
    if (own == NULL)
        return mark(
            timeline, name_back_to, timeline->since, PyLong_FromLong(timeline->bucket));
    int failed = marks_back_to(own, timeline->since, timeline->bucket);
    Py_DECREF((PyObject *)own);
    return failed;
}

int bucket_enter(Timeline *timeline, uint8_t index)
{
    int64_t now;
    if (read_clock(timeline, &now) != 0 || count_to(timeline, index, now) != 0)
        return -1;
    show(timeline, now, index);
    return timeline->marks == Py_None ? 0 : mark_entry(timeline, index);
}

int bucket_leave(Timeline *timeline)
{
    int64_t now;
    if (read_clock(timeline, &now) != 0)
        return -1;
    if (timeline->depth == 0) {
        PyObject *result = PyObject_CallFunction(
            timeline->misuse, "s", "a phase was left twice: use `with step.phase(name):`");
        if (result == NULL)
            return -1;
        Py_DECREF(result);
    } else {
        count(timeline, now);
        timeline->bucket = timeline->stack[--timeline->depth];
        show(timeline, now, timeline->bucket);
    }
    return timeline->marks == Py_None ? 0 : mark_return(timeline);
}

int mark_collective(Timeline *timeline, int64_t now, uint64_t group, int64_t op)
{
    PyObject *key = Py_BuildValue("(KL)", (unsigned long long)group, (long long)op);
    EventMarks *own = own_marks(timeline);
    if (own == NULL)
        return mark(timeline, name_enter_collective, now, key);
    int failed = key == NULL ? -1 : marks_enter_collective(own, now, key);
    Py_XDECREF(key);
    Py_DECREF((PyObject *)own);
    return failed;
}

int arrive(Timeline *timeline, uint64_t group, int64_t op, uint64_t nbytes, int64_t *now)
{
    if (read_clock(timeline, now) != 0)
        return -1;
    timeline->entered++;
    store(timeline, COLLECTIVE_LINE, (uint64_t)*now);
    store(timeline, COLLECTIVE_LINE + 2, nbytes);
    store(timeline, COLLECTIVE_LINE + 1,
        (timeline->entered & 0xFFFFFFFF) | (group & 0xFFFF) << 32 | (uint64_t)op << 48 | INSIDE);
    return 0;
}

void step_outside(Timeline *timeline)
{
    uint64_t *words = timeline->slots->words;
    if (words != NULL)
        store(timeline, COLLECTIVE_LINE + 1, words[COLLECTIVE_LINE + 1] & (INSIDE - 1));
}

int collective_enter(Timeline *timeline, uint64_t group, int64_t op, uint64_t nbytes, int64_t *now)
{
    if (arrive(timeline, group, op, nbytes, now) != 0
        || count_to(timeline, COLLECTIVE, *now) != 0)
        return -1;
    return timeline->marks == Py_None ? 0 : mark_collective(timeline, *now, group, op);
}

int leave_blocked(Timeline *timeline, int64_t *now)
{
    if (read_clock(timeline, now) != 0)
        return -1;
    timeline->totals[COLLECTIVE] += *now - timeline->since;
    timeline->since = *now;
    if (timeline->depth == 0) {
        PyErr_SetString(PyExc_IndexError, "pop from empty list");
        return -1;
    }
    timeline->bucket = timeline->stack[--timeline->depth];
    return 0;
}

int mark_left(Timeline *timeline)
{
    if (timeline->marks == Py_None)
        return 0;
    EventMarks *own = own_marks(timeline);
    if (own == NULL)
        return mark(
            timeline, name_leave_collective, timeline->since, PyLong_FromLong(timeline->bucket));
    int failed = marks_leave_collective(own, timeline->since, timeline->bucket);
    Py_DECREF((PyObject *)own);
    return failed;
}

int collective_leave(Timeline *timeline, uint64_t group, int64_t op, uint64_t nbytes, int64_t arrived)
{
    int64_t now;
    if (leave_blocked(timeline, &now) != 0)
        return -1;
    step_outside(timeline);
    if (collective_add(timeline, group, op, nbytes, arrived, now) != 0)
        return -1;
    return mark_left(timeline);
}

int step_end(Timeline *timeline, int64_t *now, int64_t *duration, int64_t *totals)
{
    if (read_clock(timeline, now) != 0)
        return -1;
    count(timeline, *now);
    *duration = *now - timeline->began;
    timeline->began = *now;
    memcpy(totals, timeline->totals, sizeof timeline->totals);
    memset(timeline->totals, 0, sizeof timeline->totals);
    if (timeline->ended == Py_None)
        return 0;
    PyObject *ended = Py_NewRef(timeline->ended); /* the call may replace it */
    PyObject *result = PyObject_CallFunction(
        ended, "LLi", (long long)*now, (long long)*duration, (int)timeline->bucket);
    Py_DECREF(ended);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

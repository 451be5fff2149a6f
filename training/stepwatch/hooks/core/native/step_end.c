/* The end of a step, as `Steps.end` has it; its rare parts are that class's methods. */
#include "core.h"
#include <math.h>

/* The truth of `owner.name`; -1 with an exception set. */
int is_true(PyObject *owner, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(owner, name);
    int truth = value == NULL ? -1 : PyObject_IsTrue(value);
    Py_XDECREF(value);
    return truth;
}

static int done(PyObject *result)
{
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

/* Whether a number needs no note: it is unknown, on a device, or as finite as one before it. */
static int is_plain(Step *step, PyObject *number, PyObject *known)
{
    if (number == unknown_float || !PyFloat_CheckExact(number))
        return 1;
    return isfinite(PyFloat_AsDouble(number)) ? is_true(step->numerics, known) : 0;
}

/* Tokens as a record holds them; -1 with an exception set. */
static int64_t read_tokens(Step *step, PyObject *given)
{
    if (PyLong_CheckExact(given)) {
        int overflow;
        long long tokens = PyLong_AsLongLongAndOverflow(given, &overflow);
        if (!overflow && tokens >= 0 && tokens <= 0xFFFFFFFFLL)
            return tokens;
    }
    PyObject *value = PyObject_CallMethod(step->steps, "whole_tokens", "(O)", given); /* may be a tuple */
    int64_t tokens = value == NULL ? -1 : PyLong_AsLongLong(value);
    Py_XDECREF(value);
    return tokens;
}

typedef struct {
    int64_t number, now, duration, totals[BUCKETS], tokens, microbatches, flags;
} Row;

static int fits(const Row *row)
{
    int fit = row->number >= 0 && row->number <= 0xFFFFFFFFLL && row->now >= 0 && row->duration >= 0
        && row->flags >= 0 && row->flags <= 0xFFFF && row->microbatches >= 0;
    for (int bucket = 0; bucket < BUCKETS; bucket++)
        fit = fit && row->totals[bucket] >= 0;
    return fit;
}

static PyObject *head_of(const Row *row)
{
    const int64_t *totals = row->totals;
    return Py_BuildValue("(LLLLLLLLLLLLLLL)", (long long)row->number, (long long)row->now,
        (long long)row->duration, (long long)totals[0], (long long)totals[1], (long long)totals[2],
        (long long)totals[3], (long long)totals[4], (long long)totals[5], (long long)totals[6],
        (long long)totals[7], (long long)totals[8], (long long)row->tokens,
        (long long)row->microbatches, (long long)row->flags);
}

static int write_row(Step *step, Slots *slots, const Row *row, PyObject *loss, PyObject *grad_norm)
{
    int floats = PyFloat_CheckExact(loss) && PyFloat_CheckExact(grad_norm);
    int late = is_true(step->late, name_pending);
    if (late < 0)
        return -1;
    double values[2] = {floats ? PyFloat_AsDouble(loss) : 0, floats ? PyFloat_AsDouble(grad_norm) : 0};
    float narrow[2] = {(float)values[0], (float)values[1]};
    if (!late && floats && fits(row) && isinf(narrow[0]) == isinf(values[0])
        && isinf(narrow[1]) == isinf(values[1])) {
        unsigned char slot[SLOT_BYTES], *end = put_head(slot, KIND_STEP, row->number, row->now);
        end = put(end, (uint64_t)row->duration, 8);
        for (int bucket = 0; bucket < BUCKETS; bucket++)
            end = put(end, (uint64_t)row->totals[bucket], 8);
        end = put(put(end, (uint64_t)row->tokens, 4), (uint64_t)row->microbatches, 2);
        end = put(end, (uint64_t)row->flags, 2);
        memcpy(end, narrow, sizeof narrow);
        return append_packed(slots, slot);
    }
    PyObject *head = head_of(row), *record = NULL;
    PyObject *numbers = Py_BuildValue("(OO)", loss, grad_norm);
    int failed = -1;
    if (head != NULL && numbers != NULL) {
        if (late || !floats)
            failed = done(PyObject_CallMethod(step->late, "write", "iOO", KIND_STEP, head, numbers));
        else if ((record = PySequence_Concat(head, numbers)) != NULL)
            failed = append_record(slots, KIND_STEP, record);
    }
    Py_XDECREF(head);
    Py_XDECREF(numbers);
    Py_XDECREF(record);
    return failed;
}

/* The writes once a step that have nothing to do in most steps. */
static int finish(Step *step, const Row *row)
{
    int calls = is_true(step->metrics, name_calls);
    if (calls == 0)
        calls = is_true(step->metrics, name_elsewhere);
    if (calls < 0
        || (calls
            && done(PyObject_CallMethod(
                   step->metrics, "end_step", "LL", (long long)row->number, (long long)row->now))))
        return -1;
    int facts = is_true(step->checkpoints, name_facts);
    if (facts < 0 || (facts && done(PyObject_CallMethod(step->checkpoints, "write", NULL))))
        return -1;
    if (row->flags & FLAG_FIRST
        && done(PyObject_CallMethod(step->steps, "first_ended", "L", (long long)row->number)))
        return -1;
    int active = is_true(step->profiles, name_active);
    if (active < 0
        || (active
            && done(PyObject_CallMethod(step->profiles, "end_step", "L", (long long)row->number))))
        return -1;
    return 0;
}

static int end(Step *step, Timeline *timeline, PyObject *tokens, PyObject *loss,
    PyObject *grad_norm, int64_t flags)
{
    State *recorder = step->recorder;
    Row row = {.number = recorder->step_number};
    int sampled = (row.number + 1) % SAMPLED_EVERY < SAMPLED_REPEATS;
    if (!sampled && (sampled = is_true(step->numerics, name_bad)) == 0)
        sampled = is_true(step->numerics, name_checks);
    if (sampled < 0
        || (sampled
            && done(PyObject_CallMethod(step->steps, "sample", "L", (long long)row.number))))
        return -1;
    if (step_end(timeline, &row.now, &row.duration, row.totals) != 0
        || (timeline->operations && collectives_write(timeline, row.now) != 0))
        return -1;
    row.flags = flags | timeline->flags;
    if (row.totals[CHECKPOINT] || row.totals[EVAL])
        row.flags |= FLAG_AFTER_PAUSE;
    row.microbatches = timeline->microbatches > 0xFFFF ? 0xFFFF : timeline->microbatches;
    /* The next step begins even if this one cannot be written. */
    timeline->flags = timeline->microbatches = 0;
    recorder->step_number = timeline->step = row.number + 1;
    row.tokens = read_tokens(step, tokens);
    if (row.tokens < 0 && PyErr_Occurred())
        return -1;
    if (write_row(step, timeline->slots, &row, loss, grad_norm) != 0)
        return -1;
    return finish(step, &row);
}

/* Count an `Exception` as the guard of `Steps.end` does; anything else passes. */
static int guarded(Step *step)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    int failed = done(PyObject_CallMethod(step->guard, "caught", "sO", "Steps.end", error));
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    return failed;
}

int end_step(Step *step, long long flags)
{
    step->inside = 0;
    PyObject *loss = step->loss, *grad_norm = step->grad_norm;
    PyObject *tokens = Py_NewRef(step->tokens); /* a signal handler may begin another step */
    step->loss = Py_NewRef(unknown_float);
    step->grad_norm = Py_NewRef(unknown_float);
    PyObject *timeline = Py_NewRef(current_timeline(step->recorder));
    int failed = 0, plain = 0;
    if (timeline != Py_None) {
        if (Py_TYPE(timeline) == timeline_type && step->recorder->drain_completions == Py_None
            && (plain = is_plain(step, loss, name_knows_loss)) > 0)
            plain = is_plain(step, grad_norm, name_knows_grad_norm);
        if (plain > 0)
            failed = end(step, (Timeline *)timeline, tokens, loss, grad_norm, flags);
        else if (plain == 0)
            failed = done(PyObject_CallMethod(
                step->steps, "end", "OOOL", tokens, loss, grad_norm, flags));
        if (plain < 0 || failed)
            failed = guarded(step);
    }
    Py_DECREF(timeline);
    Py_DECREF(tokens);
    Py_DECREF(loss);
    Py_DECREF(grad_norm);
    return failed;
}

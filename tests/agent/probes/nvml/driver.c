/* A driver whose answers stand in the file named by STEPWATCH_TEST_DRIVER, one "device key value" a
 * line. A key that is missing is not supported; a device with "lost 1" answers nothing else. Lines
 * "device xid N" are events, each handed out once, in order. "0 generation N" counts how often the
 * driver was loaded: after a change every call fails until the library is initialised again. While
 * "0 hang 1" stands there, calls about a device do not come back. Where STEPWATCH_TEST_DRIVER_LAZY is
 * set, a change of the file is seen within a second: a call then costs some 0.1 us. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, LOST = 15 };
typedef unsigned long long count_t;
typedef struct { unsigned gpu, memory; } use_t;
typedef struct { count_t total, free, used; } memory_t;
typedef struct { unsigned pid; count_t used; unsigned gi, ci; } process_t;
typedef struct { void *device; count_t type, data; unsigned gi, ci; } event_t;

static char devices[64];  /* a handle is the address of one */
static int delivered;
enum { MOST_LINES = 4096 };
static count_t initialised;

/* The lines of the script as they were when it was written last, and the same device by device:
 * those of device d are by_device[begins[d]] to by_device[begins[d + 1]]. */
enum { MOST_DEVICES = 64 };
typedef struct { int number; char name[64]; count_t value; } line_t;
static line_t lines[MOST_LINES], by_device[MOST_LINES];
static int known, begins[MOST_DEVICES + 1];
static struct timespec written;

static void sort(void) {
    int at = 0;
    for (int device = 0; device < MOST_DEVICES; device++) {
        begins[device] = at;
        for (int line = 0; line < known; line++)
            if (lines[line].number == device) by_device[at++] = lines[line];
    }
    begins[MOST_DEVICES] = at;
}

static void load(void) {
    static int lazy = -1;
    static time_t asked;
    struct stat now;
    if (lazy < 0) lazy = getenv("STEPWATCH_TEST_DRIVER_LAZY") != NULL;
    if (lazy) {
        time_t second = time(NULL);
        if (second == asked) return;
        asked = second;
    }
    const char *script = getenv("STEPWATCH_TEST_DRIVER");
    if (stat(script, &now)) { known = 0; sort(); return; }
    if (now.st_mtim.tv_sec == written.tv_sec && now.st_mtim.tv_nsec == written.tv_nsec) return;
    FILE *file = fopen(script, "r");
    if (!file) { known = 0; sort(); return; }
    written = now.st_mtim;
    for (known = 0; known < MOST_LINES; known++)
        if (fscanf(file, "%d %63s %llu", &lines[known].number, lines[known].name,
                   &lines[known].value) != 3) break;
    fclose(file);
    sort();
}

static int look(int device, const char *key, int nth, count_t *value) {
    int one = device >= 0 && device < MOST_DEVICES;
    line_t *all = one ? by_device : lines;
    int first = one ? begins[device] : 0, last = one ? begins[device + 1] : known;
    for (int at = first, found = 0; at < last; at++)
        if (all[at].name[0] == key[0] && !strcmp(all[at].name, key) && found++ == nth) {
            *value = all[at].value;
            return all[at].number + 1;
        }
    return 0;
}

static int number_of(void *device) { return (int)((char *)device - devices); }

static int unloaded(void) {
    count_t loaded = 0;
    load();
    look(0, "generation", 0, &loaded);
    return loaded != initialised;
}

static int get(void *device, const char *key, count_t *value) {
    count_t lost = 0, hang = 0, loaded = 0;
    load();
    while (look(0, "hang", 0, &hang) && hang) { usleep(10000); load(); }
    look(0, "generation", 0, &loaded);
    if (loaded != initialised) return UNINITIALIZED;
    if (look(number_of(device), "lost", 0, &lost) && lost) return LOST;
    return look(number_of(device), key, 0, value) ? OK : NOT_SUPPORTED;
}

static int get_unsigned(void *device, const char *key, unsigned *value) {
    count_t wide = 0;
    int result = get(device, key, &wide);
    *value = (unsigned)wide;
    return result;
}

void stepwatch_delivered(void) { delivered = 0; }

int nvmlInitWithFlags(unsigned flags) {
    count_t n;
    (void)flags;
    initialised = 0;
    load();
    look(0, "generation", 0, &initialised);
    return look(0, "count", 0, &n) ? OK : 9;
}
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int result) { (void)result; return "scripted"; }
/* "0 driver 535104" is version 535.104.05, "0 driver_cuda 12020" is CUDA 12.2. */
int nvmlSystemGetDriverVersion(char *version, unsigned size) {
    count_t known = 535104;
    look(0, "driver", 0, &known);
    snprintf(version, size, "%llu.%llu.05", known / 1000, known % 1000);
    return OK;
}
int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    count_t known = 12020;
    look(0, "driver_cuda", 0, &known);
    *version = (int)known;
    return OK;
}
int nvmlDeviceGetCount_v2(unsigned *n) {
    count_t w = 0;
    if (unloaded()) return UNINITIALIZED;
    look(0, "count", 0, &w);
    *n = (unsigned)w;
    return OK;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned at, void **device) {
    count_t missing = 0;
    *device = &devices[at];
    load();
    return look((int)at, "missing", 0, &missing) ? LOST : OK;
}
int nvmlDeviceGetUtilizationRates(void *d, use_t *use) { use->memory = 0; return get_unsigned(d, "busy", &use->gpu); }
int nvmlDeviceGetMemoryInfo(void *d, memory_t *m) {
    int result = get(d, "memory_used", &m->used);
    return result ? result : get(d, "memory_total", &m->total);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, count_t *r) { return get(d, "throttle", r); }
int nvmlDeviceGetClockInfo(void *d, int kind, unsigned *v) { (void)kind; return get_unsigned(d, "clock", v); }
int nvmlDeviceGetMaxClockInfo(void *d, int kind, unsigned *v) { (void)kind; return get_unsigned(d, "clock_limit", v); }
int nvmlDeviceGetPowerUsage(void *d, unsigned *v) { return get_unsigned(d, "power", v); }
int nvmlDeviceGetEnforcedPowerLimit(void *d, unsigned *v) { return get_unsigned(d, "power_limit", v); }
int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *v) { (void)sensor; return get_unsigned(d, "temperature", v); }
int nvmlDeviceGetTotalEccErrors(void *d, int kind, int counter, count_t *v) {
    (void)counter;
    return get(d, kind ? "ecc_uncorrected" : "ecc_corrected", v);
}
int nvmlDeviceGetPcieReplayCounter(void *d, unsigned *v) { return get_unsigned(d, "pcie_replays", v); }
/* Links 0 and 1 are there where "nvlink" is, the errors of each; "linkN" says whether N is up, and
 * "linkN_errorsK" how many errors of kind K it has. */
int nvmlDeviceGetNvLinkState(void *d, unsigned link, unsigned *up) {
    char key[32];
    count_t ignored;
    snprintf(key, sizeof key, "link%u", link);
    if (get_unsigned(d, key, up) == OK) return OK;
    *up = 1;
    return link < 2 ? get(d, "nvlink", &ignored) : NOT_SUPPORTED;
}
int nvmlDeviceGetNvLinkErrorCounter(void *d, unsigned link, int kind, count_t *v) {
    char key[32];
    snprintf(key, sizeof key, "link%u_errors%d", link, kind);
    if (get(d, key, v) == OK) return OK;
    return link < 2 ? get(d, "nvlink", v) : NOT_SUPPORTED;
}
int nvmlDeviceGetPersistenceMode(void *d, unsigned *v) { return get_unsigned(d, "persistence", v); }
int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *pending) {
    *pending = 0;
    return get_unsigned(d, "mig", now);
}
int nvmlDeviceGetApplicationsClock(void *d, int kind, unsigned *v) { (void)kind; return get_unsigned(d, "application_clock", v); }
int nvmlDeviceGetTemperatureThreshold(void *d, int kind, unsigned *v) {
    return kind == 1 ? get_unsigned(d, "slows_at", v) : NOT_SUPPORTED;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, process_t *found) {
    count_t pid = 0;
    int result = get(d, "pid", &pid);
    unsigned room = *n;
    if (result == NOT_SUPPORTED) { *n = 0; return OK; }
    if (result) return result;
    *n = 1;
    if (!found || room < 1) return INSUFFICIENT_SIZE;
    memset(found, 0, sizeof *found);
    found->pid = (unsigned)pid;
    return OK;
}
typedef struct { char old[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci_t;
int nvmlDeviceGetPciInfo_v3(void *d, pci_t *pci) {
    memset(pci, 0, sizeof *pci);
    return get_unsigned(d, "pci_bus", &pci->bus);
}
int nvmlDeviceGetRemappedRows(void *d, unsigned *corrected, unsigned *others, unsigned *pending, unsigned *failed) {
    unsigned ignored;
    get_unsigned(d, "remapped", corrected);
    *others = 0;
    if (get_unsigned(d, "remap_pending", pending)) *pending = 0;
    if (get_unsigned(d, "remap_failed", failed)) *failed = 0;
    return get_unsigned(d, "remapped", &ignored);
}
int nvmlDeviceGetCurrPcieLinkWidth(void *d, unsigned *v) { return get_unsigned(d, "lanes", v); }
int nvmlDeviceGetMaxPcieLinkWidth(void *d, unsigned *v) { return get_unsigned(d, "lanes_most", v); }
typedef struct { unsigned id, scope; long long at, latency; int type, result; union { unsigned value; double wide; } is; } field_t;
int nvmlDeviceGetFieldValues(void *d, int n, field_t *fields) {
    for (int at = 0; at < n; at++) {
        fields[at].is.wide = 0;
        fields[at].result = fields[at].id == 230 ? get_unsigned(d, "recovery", &fields[at].is.value) : NOT_SUPPORTED;
    }
    return OK;
}
/* Performance monitoring: metric N of a device with "gpm 1" is the key "gpmN", in thousandths. */
typedef struct { void *device; count_t taken; } sample_t;
typedef struct { unsigned id, result; double value; char *names[3]; } metric_t;
typedef struct { unsigned version, n; sample_t *first, *second; metric_t metrics[]; } metrics_t;
static int samples;
static count_t taken;

int stepwatch_samples(void) { return samples; }

int nvmlGpmQueryDeviceSupport(void *d, unsigned *support) {
    support[1] = 0;
    return get_unsigned(d, "gpm", &support[1]) == UNINITIALIZED ? UNINITIALIZED : OK;
}
int nvmlGpmSampleAlloc(sample_t **sample) {
    if (unloaded()) return UNINITIALIZED;
    *sample = calloc(1, sizeof **sample);
    samples++;
    return OK;
}
int nvmlGpmSampleFree(sample_t *sample) {
    free(sample);
    samples--;
    return OK;
}
int nvmlGpmSampleGet(void *d, sample_t *sample) {
    count_t refuses = 0, ignored;
    int result = get(d, "gpm", &ignored);
    if (result) return result;
    if (get(d, "gpm_refuses", &refuses) == OK) return 999;
    sample->device = d;
    sample->taken = ++taken;
    return OK;
}
int nvmlGpmMetricsGet(metrics_t *wanted) {
    sample_t *first = wanted->first, *second = wanted->second;
    if (unloaded()) return UNINITIALIZED;
    if (!first || !second || first->device != second->device || first->taken >= second->taken) return 2;
    for (unsigned at = 0; at < wanted->n; at++) {
        char key[32];
        count_t value = 0;
        snprintf(key, sizeof key, "gpm%u", wanted->metrics[at].id);
        wanted->metrics[at].result = (unsigned)get(second->device, key, &value);
        wanted->metrics[at].value = (double)value / 1000.0;
    }
    return OK;
}
int nvmlEventSetCreate(void **set) { *set = devices; return OK; }
int nvmlEventSetFree(void *set) { (void)set; return OK; }
int nvmlDeviceRegisterEvents(void *d, count_t kinds, void *set) {
    count_t refuses = 0;
    (void)kinds; (void)set;
    load();
    return look(number_of(d), "no_events", 0, &refuses) ? NOT_SUPPORTED : OK;
}
int nvmlEventSetWait_v2(void *set, event_t *event, unsigned timeout) {
    count_t xid = 0;
    (void)set; (void)timeout;
    if (unloaded()) return UNINITIALIZED;
    int found = look(-1, "xid", delivered, &xid);
    if (!found) return TIMEOUT;
    delivered++;
    memset(event, 0, sizeof *event);
    event->device = &devices[found - 1];
    event->data = xid;
    return OK;
}

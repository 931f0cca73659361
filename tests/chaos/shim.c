/* Preloaded into the daemon and its workers: faults of the disk below one directory, and of the
 * clock, as the control file asks for them. See shim.py for its numbers. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { CLOCK_STEP_NS, WRITE_ERRNO, SYNC_ERRNO, READ_ERRNO, DELAY_US, FAILED, NUMBERS };

static volatile int64_t nothing[NUMBERS];
static volatile int64_t *control = nothing;
static const char *directory;

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("CHAOS_CONTROL");
    directory = getenv("CHAOS_DIRECTORY");
    int file = path && directory ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof nothing, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) control = mapped;
    close(file);
}

/* Return whether a call for this descriptor must fail with an error; wait before, if asked. */
static int fails(int descriptor, int which) {
    if (!control[which] && !control[DELAY_US]) return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0 || strncmp(path, directory, strlen(directory))) return 0;
    if (control[DELAY_US]) usleep((useconds_t)control[DELAY_US]);
    if (!control[which]) return 0;
    __atomic_add_fetch(&control[FAILED], 1, __ATOMIC_RELAXED);
    errno = (int)control[which];
    return 1;
}

#define NEXT(type, name, ...) \
    static type (*next)(__VA_ARGS__); \
    if (!next) next = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

ssize_t write(int descriptor, const void *data, size_t size) {
    NEXT(ssize_t, write, int, const void *, size_t);
    return fails(descriptor, WRITE_ERRNO) ? -1 : next(descriptor, data, size);
}

ssize_t writev(int descriptor, const struct iovec *pieces, int count) {
    NEXT(ssize_t, writev, int, const struct iovec *, int);
    return fails(descriptor, WRITE_ERRNO) ? -1 : next(descriptor, pieces, count);
}

ssize_t read(int descriptor, void *data, size_t size) {
    NEXT(ssize_t, read, int, void *, size_t);
    return fails(descriptor, READ_ERRNO) ? -1 : next(descriptor, data, size);
}

int fdatasync(int descriptor) {
    NEXT(int, fdatasync, int);
    return fails(descriptor, SYNC_ERRNO) ? -1 : next(descriptor);
}

int fsync(int descriptor) {
    NEXT(int, fsync, int);
    return fails(descriptor, SYNC_ERRNO) ? -1 : next(descriptor);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    NEXT(int, clock_gettime, clockid_t, struct timespec *);
    int result = next(clock, now);
    int64_t step = control[CLOCK_STEP_NS];
    if (result == 0 && step && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t moved = now->tv_sec * 1000000000LL + now->tv_nsec + step;
        now->tv_sec = moved / 1000000000LL;
        now->tv_nsec = moved % 1000000000LL;
    }
    return result;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

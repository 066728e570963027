/*  spare_threads -- whether more threads can be started.
 *
 *  ZeroMQ aborts the process where it can start none of its own (4.3.4, thread.cpp): so that is tried first.
 *  Owner: any thread.
 */
#ifndef SPARE_THREADS_H
#define SPARE_THREADS_H
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>

enum { SPARE_THREADS_OF_ZMQ = 2,        //  of a context with one I/O thread, once it has a socket
    SPARE_THREADS_TRIES = 20 };         //  milliseconds

//  Two more than this process has.
static inline nlink_t
spare_threads_count (void)
{
    struct stat status;
    return stat ("/proc/self/task", &status)? 0: status.st_nlink;
}

static void *
spare_threads_wait (void *lock)
{
    pthread_mutex_lock (lock);
    pthread_mutex_unlock (lock);
    return NULL;
}

//  Starts SPARE_THREADS_OF_ZMQ threads at once, and ends them.  0, or -errno: EAGAIN, at a limit.
static inline int
spare_threads_try (void)
{
    pthread_t threads [SPARE_THREADS_OF_ZMQ];
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int count = 0, rc = 0;
    nlink_t before = spare_threads_count ();
    pthread_mutex_lock (&lock);
    while (rc == 0 && count < SPARE_THREADS_OF_ZMQ) {
        rc = -pthread_create (&threads [count], NULL, spare_threads_wait, &lock);
        count += rc == 0;
    }
    pthread_mutex_unlock (&lock);
    while (count > 0)
        pthread_join (threads [--count], NULL);
    pthread_mutex_destroy (&lock);
    //  One that is joined counts for a moment longer.
    for (int tries = 0; tries < SPARE_THREADS_TRIES && spare_threads_count () > before; tries++)
        poll (NULL, 0, 1);
    return rc;
}

#endif

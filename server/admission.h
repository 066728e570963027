/*  admission -- turns a JOIN message into a job: pipeline, ids, memory, token, and the text of JOINED.  */
#ifndef ADMISSION_H
#define ADMISSION_H
#include <stdint.h>
#include <sys/types.h>
#include "broker.h"
#include "door.h"
#include "log.h"
#include "outbox.h"

typedef struct {
    broker_t *broker;
    door_t *door;
    const char *ring_path;
    log_t *log;
    const peer_t *peer;
    atomic_size_t *outgoing;
    uid_t uid;                  //  of the peer; (uid_t) -1: unknown (tcp), for the door ourselves
    int64_t now_ms;
} admission_t;

//  The job and *text_p (JOINED's JSON, malloc'ed, the caller's); or NULL, and refusal says why.
job_t *admission_run (const admission_t *self, const frame_t *frames, size_t count, char **text_p,
    refusal_t *refusal);

#endif

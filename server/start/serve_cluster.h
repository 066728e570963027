/*  serve_cluster -- the settings of a server that keeps blocks of stores in common with others (cluster.h).
 *
 *  Plain data; { 0 }: it is alone.  Owner: the thread that starts and ends the server.
 */
#ifndef SERVE_CLUSTER_H
#define SERVE_CLUSTER_H
#include "cluster.h"
#include "log.h"
#include "options.h"

typedef struct {
    members_t *members;
    cluster_t *cluster;                 //  NULL: the settings name no members
    bool has_trouble;                   //  that was logged
} serve_cluster_t;

//  Finds the members, before the data sets are opened.  False: the reason is on standard error, as of the
//  next.
bool serve_cluster_open (serve_cluster_t *self, const options_t *options, log_t *log);
//  When all readers run: the other members may ask.
bool serve_cluster_start (serve_cluster_t *self);
//  Logs trouble with the list of members, and its end.
void serve_cluster_look (serve_cluster_t *self, log_t *log);
//  Before the readers end, and after that.
void serve_cluster_stop (serve_cluster_t *self);
void serve_cluster_close (serve_cluster_t *self);

#endif

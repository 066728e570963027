#include "serve_cluster.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "complain.h"
#include "keys.h"

enum { ERROR_BYTES = 1024 };

static bool
s_is_this_machine (const char *name)
{
    return strncmp (name, "127.", 4) == 0 || strncmp (name, "localhost:", 10) == 0
        || strncmp (name, "[::1]:", 6) == 0;
}

//  False: the reason is on standard error.
static bool
s_check (const options_t *options)
{
    if (!options->members && (options->member || options->member_keys))
        return complain ("serve", "--member%s without --members: name all members, as in --members "
            "node1:7600,node2:7600", options->member? "": "-keys");
    if (!options->members)
        return true;
    if (!options->member)
        return complain ("serve", "--members without --member: say by which HOST:PORT the others reach this "
            "server, as in --member node1:7600");
    if (!options->blocks_folder)
        return complain ("serve", "--members without --block-cache: members keep blocks for each other on "
            "their local disks; name a folder and its size, as in --block-cache /var/cache/tureen=200G");
    const char *remedy = "make a folder with the key pair of all members (docs/cluster_cache.md), and give "
        "it to each as --member-keys DIR";
    if (!options->keys && !options->member_keys && !s_is_this_machine (options->member))
        return complain ("serve", "every program that reaches '%s' could read the data sets: %s",
            options->member, remedy);
    if (!options->keys && !options->member_keys && !options->open)
        return complain ("serve", "every user of this machine could read the data sets at '%s': %s, or say "
            "that they may (--open)", options->member, remedy);
    return true;
}

static bool
s_make (serve_cluster_t *self, const options_t *options, log_t *log)
{
    char error [ERROR_BYTES];
    const char *folder = options->member_keys? options->member_keys: options->keys;
    keys_t *keys = NULL;
    if (folder && keys_open (&keys, folder, log, error, sizeof error))
        return complain ("serve", "--member-keys: %s", error);
    cluster_options_t cluster = { .members = self->members, .name = options->member,
        .public_key = keys? keys_server_public (keys): NULL,
        .secret_key = keys? keys_server_secret (keys): NULL };
    self->cluster = cluster_new (&cluster);
    keys_destroy (&keys);
    return self->cluster || complain ("serve", "no memory for the cluster");
}

bool
serve_cluster_open (serve_cluster_t *self, const options_t *options, log_t *log)
{
    char error [ERROR_BYTES];
    if (!s_check (options))
        return false;
    if (!options->members)
        return true;
    if (members_open (&self->members, options->members, options->member, options->blocks_bytes, error,
        sizeof error))
        return complain ("serve", "--members: %s", error);
    return s_make (self, options, log);
}

bool
serve_cluster_start (serve_cluster_t *self)
{
    char error [ERROR_BYTES];
    if (!self->cluster)
        return true;
    if (cluster_start (self->cluster, error, sizeof error))
        return complain ("serve", "%s", error);
    members_look_t look;
    members_look (self->members, &look);
    printf ("blocks of stores are kept together with other servers: %s\n", look.source);
    return true;
}

void
serve_cluster_look (serve_cluster_t *self, log_t *log)
{
    if (!self->cluster)
        return;
    members_look_t look;
    members_look (self->members, &look);
    if (*look.trouble && !self->has_trouble)
        log_event (log, LOG_LEVEL_WARNING, "members", NULL, "the list of members may not be up to date, and "
            "holds all the same, so that no sample is lost: %s", look.trouble);
    if (!*look.trouble && self->has_trouble)
        log_event (log, LOG_LEVEL_NOTICE, "members", NULL, "the list of members is up to date again");
    self->has_trouble = *look.trouble;
}

void
serve_cluster_stop (serve_cluster_t *self)
{
    if (self->cluster)
        cluster_stop (self->cluster);
}

void
serve_cluster_close (serve_cluster_t *self)
{
    cluster_destroy (&self->cluster);
    members_close (&self->members);
}

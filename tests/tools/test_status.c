//  What `tureen status` prints for people of an answer.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "fake_server.h"
#include "reading.h"

#define TASK(STAGE, OPERATION, DATASET, SAMPLE, JOB, TENANT, SECONDS) \
    "{\"stage\":\"" STAGE "\",\"operation\":" OPERATION ",\"dataset\":" DATASET ",\"sample\":" SAMPLE \
    ",\"job\":" JOB ",\"tenant\":" TENANT ",\"seconds\":" SECONDS "}"

static void
s_show (const char *status)
{
    static const char *const none [] = { NULL };
    fake_plan_t plan = { .status = status };
    fake_server_t *fake = fake_new (&plan);
    int code = reading_finish (reading_start_program ("tureen", "status", fake, none));
    if (code)
        fail_msg ("status %d, \"%s\"", code, reading_err);
    fake_destroy (&fake);
}

//  A line each, with what is known.
static void
test_long_tasks (void **state)
{
    (void) state;
    s_show ("{\"version\":\"0.1.0\",\"uptime_seconds\":90.0,\"jobs\":[],\"long_tasks\":["
        TASK ("private", "null", "\"train\"", "17", "5", "\"a\"", "23.4") ","
        TASK ("shared", "\"slow\"", "\"train\"", "0", "null", "null", "11.6") ","
        TASK ("beside", "null", "null", "null", "null", "null", "3600.0") "]}");
    static const char *const lines [] = {
        "\na thread is in one task for 23 s: private stage of sample 17 of data set 'train', for job 5, of "
            "tenant 'a'\n",
        "\na thread is in one task for 12 s: shared stage of sample 0 of data set 'train', with operation "
            "'slow'\n",
        "\na thread is in one task for 3600 s: an explanation, or the ids of a join\n"
    };
    for (size_t index = 0; index < sizeof lines / sizeof *lines; index++)
        if (!strstr (reading_out, lines [index]))
            fail_msg ("no \"%s\" in: %s", lines [index], reading_out);
    s_show ("{\"version\":\"0.1.0\",\"uptime_seconds\":90.0,\"jobs\":[],\"long_tasks\":[]}");
    assert_null (strstr (reading_out, "a thread"));
    s_show ("{\"version\":\"0.0.9\",\"uptime_seconds\":90.0,\"jobs\":[]}");        //  of an older server
    assert_null (strstr (reading_out, "a thread"));
}

#define LEAF(JOB, SIZE, REMAINING) "{\"job\":" JOB ",\"size\":" SIZE ",\"remaining\":" REMAINING "}"

//  Ten jobs, one of them beside the path: a line each, but for those that are too many.
static void
test_trees (void **state)
{
    (void) state;
    static const char rest [] = ",{\"size\":0,\"parent\":1,\"jobs\":5,\"leaf\":" LEAF ("9", "1", "61") "}";
    char status [2000] = "{\"version\":\"0.1.0\",\"uptime_seconds\":90.0,"
        "\"jobs\":[{\"job\":3,\"name\":\"job 9\"}],"
        "\"datasets\":[{\"name\":\"t\",\"samples\":99,\"sharing_trees\":[{\"kept\":false,\"ids\":99,"
        "\"looked_at\":64,\"vertices\":[{\"size\":20,\"parent\":null,\"jobs\":9,"
        "\"leaf\":" LEAF ("3", "7", "27") "},{\"size\":40,\"parent\":0,\"jobs\":8,"
        "\"leaf\":" LEAF ("4", "0", "60") "}";
    for (int job = 0; job < 7; job++)
        strcat (status, rest);
    strcat (status, "],\"off_path\":[{\"job\":5,\"remaining\":2}],"
        "\"pairs\":{\"jobs\":[3,4],\"common\":[[],[19]]}}]}]}");
    s_show (status);
    static const char *const lines [] = {
        "\n  who shares what: samples that 10 jobs still have to draw (no tree is kept; made for this "
            "answer; estimated from 64)\n"
            "    about 20 by all 9 jobs\n"
            "    - job 3 (job 9): 27 to draw, about 7 in its leaf; most with job 4: about 19\n"
            "      about 40 more by all 8 jobs below\n"
            "      - job 4: 60 to draw, about 0 in its leaf; most with job 3: about 19\n"
            "      - job 9: 61 to draw, about 1 in its leaf\n",
        "\n    and 1 more: `tureen status --json`, or the page (serve --http)\n"
            "    beside the tree now, drawing alone: job 5\n"
    };
    for (size_t index = 0; index < sizeof lines / sizeof *lines; index++)
        if (!strstr (reading_out, lines [index]))
            fail_msg ("no \"%s\" in: %s", lines [index], reading_out);
}

//  Of a kept tree only pairs are estimates.  The last vertex is told with its job's leaf, and what is not
//  known is said to be so.
static void
test_two_jobs (void **state)
{
    (void) state;
    static const char status [] = "{\"version\":\"0.1.0\",\"uptime_seconds\":90.0,\"jobs\":[],\"datasets\":["
        "{\"name\":\"t\",\"samples\":99,\"sharing_trees\":[{\"kept\":true,\"ids\":99,\"looked_at\":64,"
        "\"vertices\":[{\"size\":20,\"parent\":null,\"jobs\":2,\"leaf\":" LEAF ("3", "7", "27") "},"
        "{\"size\":40,\"parent\":0,\"jobs\":1,\"leaf\":" LEAF ("4", "1", "61") "}],\"off_path\":[],"
        "\"pairs\":{\"jobs\":[3,4],\"common\":[[],[19]]}},"
        "{\"kept\":false,\"ids\":99,\"looked_at\":64,"
        "\"vertices\":[{\"size\":null,\"parent\":null,\"jobs\":2,\"leaf\":" LEAF ("3", "null", "27") "},"
        "{\"size\":null,\"parent\":0,\"jobs\":1,\"leaf\":" LEAF ("4", "1", "61") "}],\"off_path\":[],"
        "\"pairs\":{\"jobs\":[3,4],\"common\":[[],[null]]}}]}]}";
    s_show (status);
    static const char *const lines [] = {
        " (the tree that draws are made from; pairs estimated from 64)\n"
            "    20 by both jobs\n"
            "    - job 3: 27 to draw, 7 in its leaf; most with job 4: about 19\n"
            "    - job 4: 61 to draw, 41 in its leaf; most with job 3: about 19\n",
        "    not known how many by both jobs\n"
            "    - job 3: 27 to draw, not known how many in its leaf\n"
            "    - job 4: 61 to draw, not known how many in its leaf\n"
    };
    for (size_t index = 0; index < sizeof lines / sizeof *lines; index++)
        if (!strstr (reading_out, lines [index]))
            fail_msg ("no \"%s\" in: %s", lines [index], reading_out);
}

//  A state in which each figure differs from each other one; ' for ".
static const char s_full [] =
    "{'version':'0.1.0','uptime_seconds':4301.0,'cpu_seconds':4302.5,'restarts':1,"
    "'memory':{'bytes':7.1e9,'pinned_bytes':2.1e9,'pins_bytes':3.1e9,'mixing_bytes':4.1e8,"
    "'prepared_bytes':5.1e8},"
    "'datasets':[{'name':'train','samples':1001,'classes':12,'labels':['label','second'],"
    "'fields':['image','mask','depth'],'bytes':13.1e6,'bad_samples':14,'on_bad':'fail','path':'/data/t',"
    "'warnings':['of class'],'trouble':{'still':true,'reason':'away','seconds':15.0,'patience':16.0},"
    "'devices':['259:1'],'pack':{'policy':'redox','piece_samples':17,'reads':18,'resident_samples':1,"
    "'resident_bytes':19.1e6,'resident_bytes_max':20.1e6,'passes':21,'bytes_read':22.1e6,"
    "'bytes_handed':23.1e6,'read_amplification':0.957,'memory_bytes':24.1e6,'source_bytes':25.1e6,"
    "'source_seconds':26.1,'gets':27,'slow_gets':28,'ahead_bytes':29.1e6,'block_cache_held':30.1e6,"
    "'block_cache_bytes':31.1e6,'block_cache_seconds':32.1,'peer_bytes':33.1e6},"
    "'pins':{'bytes':3.4e9,'data_bytes':5e9,'hit_bytes':3.5e9,'miss_bytes':6.5e9,'saved_seconds':36.0},"
    "'bad':[{'id':37,'reason':'no picture'}]},"
    "{'name':'val','samples':1,'classes':1,'bytes':38.1e6,'bad_samples':0,"
    "'trouble':{'still':false,'reason':'slow','seconds':39.0,'patience':40.0},"
    "'devices':['259:1'],'pack':{'policy':'direct'},'pieces':{'since_seconds':41.0},"
    "'objects':{'gets':0,'source_bytes':42.1e6,'block_cache_bytes':43.1e6,'block_cache_seconds':44.1,"
    "'block_cache_held':45.1e6}}],"
    "'tenants':[{'name':'vision','weight':46,'jobs':1,'jobs_max':47,'batches_bytes':48.1e6,"
    "'batches_bytes_max':49.1e6,'cache_bytes':50.1e6,'cache_bytes_max':51.1e6,'cache_is_limited':false,"
    "'evictions':52,'prepared_again':53,'dropped_unused':54,'worker_seconds':55.1,"
    "'refusals':{'busy':56,'memory':57}},"
    "{'name':'audio','weight':58,'jobs':1,'cache_bytes':59.1e6,'cache_bytes_max':60.1e6,"
    "'cache_is_limited':true,'batches_bytes_max':61.1e6}],"
    "'jobs':[{'job':62,'name':'first','tenant':'vision','dataset':'train','order':'shared',"
    "'transport':'ring','epoch':63,'epoch_delivered':64,'epoch_consumed':65,'epoch_samples':66,"
    "'consumed_epoch':67,'consumed_samples':68,'delivered_samples':69,'rate':70.1,"
    "'sharing':{'places':200,'alone':58,'shared':142},'waiting_on':'read',"
    "'waits':{'draw':1,'read':40,'memory':3,'decode':25,'copy':11,'client':20},"
    "'ranks':[{'rank':0,'state':'here','lacks_steps':0,'waits':{'read':20,'other_rank':80}},"
    "{'rank':1,'state':'lost','lacks_steps':71,'waits':{'read':99,'other_rank':1}},"
    "{'rank':2,'state':'here','lacks_steps':1,'waits':{'read':27,'other_rank':73}}],"
    "'tier':{'resident_samples':74,'resident_bytes':75.1e6,'resident_bytes_max':76.1e6,'piece_samples':77},"
    "'reads':{'epoch':78,'epoch_bytes':1e9,'epoch_pinned_bytes':4.5e8,'epoch_saved_seconds':79.0}}],"
    "'gathering':[{'job':'late','world_size':80,'left':81.0,'missing':[82,83]}],"
    "'prepared':84,'delivered':85,'prepared_per_delivered':0.988,'cache_hits':86,'cache_bytes':87.1e6,"
    "'cache_bytes_max':88.1e6,'evictions':89,'prepared_again':90,'dropped_unused':91,'ring_bytes':92.1e6,"
    "'jobs_bytes':93.1e6,'jobs_bytes_max':94.1e6,"
    "'devices':[{'device':'259:1','reading':'threads','reads_max':95,'measured':true,"
    "'latency_microseconds':96,'megabytes_per_second':97,'observed_reads':98,'proxy':'http://p'}],"
    "'remote_workers':[{'name':'node','state':'working','processors':1,'rate':99.0,'done':100,'out':101,"
    "'lost':102,'late':103,'wrong':104,'bytes_sent':105.1e6,'bytes_received':106.1e6,'reason':'slow'}],"
    "'operations':[{'name':'crop','processes':107,'calls':108,'seconds':1.08,'failures':109,'restarts':1,"
    "'changed':'since','last_failure':'why'}],"
    "'cluster':{'member':'a:1','members_from':'list','registered':false,'given':{'bytes':110.1e6},"
    "'trouble':'b:2 is away','members':[{'member':'a:1','state':'this'},"
    "{'member':'b:2','state':'away','homes':0.37,'bytes':111.1e6,'blocks':112,'late':113,'damaged':114}]},"
    "'raw_bytes':115.1e6,'raw_bytes_max':116.1e6,"
    "'block_cache':{'bytes':117.1e6,'bytes_max':118.1e6,'folder':'/cache','aside':true,'failure':'full'},"
    "'draining':true,'until_idle':{'seconds':119.0,'left':120.0}}";

//  The whole page: a figure under a wrong name, of another unit or in no line is a difference.
static void
test_each_figure_stands_in_its_line (void **state)
{
    (void) state;
    char status [sizeof s_full];
    for (size_t at = 0; at < sizeof s_full; at++)
        status [at] = s_full [at] == '\''? '"': s_full [at];
    s_show (status);
    static const char page [] =
        "tureen 0.1.0, up 4301 s, 4302.5 s of CPU, restarted 1 time\n"
        "memory 7.1 GB: 2.1 GB of 3.1 GB pinned (68 % of train), 410 MB for mixing, 510 MB for "
            "prepared samples; 35 % of the bytes read so far came from pins, about 36 s of reading "
            "saved\n"
        "data set train        1001 samples, 12 classes, labels label, second, fields mask, depth, "
            "13.1 MB, 14 unreadable (which end jobs), /data/t\n"
        "  warning: of class\n"
        "  stands still: away; for 15 s now, tried again for 16 s\n"
        "  a pack, redox in pieces of 17\n"
        "  resident 1 sample, 19.1 of 20.1 MB; pass 21; 22.1 MB read for 23.1 MB handed to workers "
            "(0.957)\n"
        "  24.1 MB were in memory; from the store 25.1 MB by 27 GETs of 26.1 s in all (28 of them "
            "far slower than others, given up and made again), of it 29.1 MB fetched ahead; from the "
            "local disk 31.1 MB in 32.1 s, which has 30.1 MB; from other servers 33.1 MB\n"
        "  pinned 3.4 GB, 68 % of it; 35 % of the bytes read so far came from there (3.5 GB), about "
            "36 s of reading saved\n"
        "  unreadable: id 37, no picture\n"
        "data set val          1 sample, 1 class, 38.1 MB, 0 unreadable\n"
        "  some reads fail: slow; for 39 s now, tried again for 40 s\n"
        "  a pack, direct\n"
        "  kept on the local disk, and read from there in pieces for 41 s\n"
        "  from the source 42.1 MB; from the local disk 43.1 MB in 44.1 s, which has 45.1 MB\n"
        "tenant vision       weight 46, 1 of 47 jobs, batches 48.1 of 49.1 MB, cache 50.1 MB (its "
            "part 51.1), evicted 52, prepared again 53, dropped unused 54, 55.1 s of workers; "
            "refused: busy 56, memory 57\n"
        "tenant audio        weight 58, 1 job, batches at most 61.1 MB, cache 59.1 of 60.1 MB\n"
        "  job tenant name           data set     order    memory   epoch    of this epoch   "
            "consumed samples/s  shared  waiting on  waited for\n"
        "   62 vision first          train        shared   ring        67            65/66         "
            "68      70.1    71 %  read        read 40 %, decode 25 %, client 20 %, copy 11 %, "
            "memory 3 %, draw 1 %\n"
        "      3 ranks: rank 1 lost (lacks 71 steps), rank 2 here (lacks 1 step), the others here\n"
        "      rank 1 is behind: the others waited up to 79 % of the time for it\n"
        "      a pool of its own: 74 samples, 75.1 of 76.1 MB, in pieces of 77\n"
        "      in epoch 78, 45 % of the bytes read for it came from pins, about 79 s of reading saved\n"
        "      (waited for, since its start: draw = jobs that may begin with it, read = bytes, "
            "memory = the prepared cache's,\n"
        "      decode = the shared stage, copy = its own stage into the batch, client = its loop)\n"
        "job 'late' waits for 2 of 80 ranks, for 81 s more: 82, 83\n"
        "prepared 84, delivered 85, prepared per delivered 0.988; cache hits 86\n"
        "cache 87.1 of 88.1 MB, evicted 89, prepared again 90, dropped unused 91; rings 92.1 MB, "
            "jobs 93.1 of 94.1 MB\n"
        "device 259:1 (train, val) read by threads, 95 at once; measured: 96 us, 97 MB/s (98 reads "
            "seen); through the proxy http://p\n"
        "worker node         working, 1 processor, 99 samples/s, 100 done, 101 out, 102 lost, 103 "
            "late, 104 wrong; 105.1 MB sent, 106.1 MB received: slow\n"
        "operation crop         107 processes, 108 calls of 10.0 ms, 109 failed, 1 restart; since; "
            "the last failure: why\n"
        "member a:1 of a cluster (list); others cannot find it; gave 110.1 MB to others; b:2 is away\n"
        "  b:2: away, home of 37 %, gave 111.1 MB in 112 answers, 113 late, 114 damaged\n"
        "compressed samples 115.1 of 116.1 MB\n"
        "cache on the local disk 117.1 of 118.1 MB, in /cache; not used now: its disk does not "
            "answer in time; not written any more: full\n"
        "takes no new jobs (tureen drain), and ends with the last that it has\n"
        "ends in 120 s, unless a job comes\n";
    size_t same = 0;
    while (page [same] && page [same] == reading_out [same])
        same++;
    if (page [same] || reading_out [same])
        fail_msg ("after %zu characters \"%.300s\", not \"%.300s\"", same, reading_out + same, page + same);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_long_tasks), cmocka_unit_test (test_trees), cmocka_unit_test (test_two_jobs),
        cmocka_unit_test (test_each_figure_stands_in_its_line)
    };
    return cmocka_run_group_tests (tests, reading_set_up, reading_tear_down);
}

/*  cost -- what reading costs at a source: latency, bandwidth and requests a second, as measured, and what
 *  follows from them.
 *
 *  The model.  A read of b bytes that is alone takes
 *      latency + b / bandwidth
 *  (NoPFS, section 4, has the same two terms).  With d reads in flight the latencies overlap, but the source
 *  works on the bytes one read after the other, and for each read `serial` seconds beside them: the arm of a
 *  hard disk that has to move (serial = latency: nothing overlaps), the limit of requests a second that a
 *  cloud disk has, a solid state disk's next to nothing.  So a read takes
 *      t (b, d) = max (latency + b / bandwidth, d * (serial + b / bandwidth)),     0 < serial <= latency,
 *  the source gives d * b / t (b, d) bytes a second (Little's law), and what more depth can give ends at
 *  b / (serial + b / bandwidth).
 *
 *  What a completed read tells therefore depends on its depth: above the knee its time does not depend on the
 *  latency, and at one size and one depth, latency, serial and bandwidth cannot be separated at all.  So
 *  reads are gathered in *cells* of similar size and depth, each with a running, clipped mean of log seconds
 *  (a page cache's hit or a stall of 100 ms among a hundred reads hardly moves it).  Cells fade as others are
 *  observed.  The three numbers are those that fit all cells best, in log seconds, with the probe or the
 *  assumption as one more cell: what the reads do not determine stays as it was.
 *
 *  Measured at start by a few reads (cost_probe), then kept up to date by every read that is done
 *  (cost_observe).  A user's setting overrides the measurement.  Owner: one thread.
 */
#ifndef COST_H
#define COST_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COST_SIZES = 8, COST_DEPTHS = 9, COST_FIRST = 7 };

//  Reads of like size and depth; logarithms are natural ones.
typedef struct {
    float weight;                       //  reads, the older the less
    float log_bytes, log_depth;         //  means
    float log_seconds, spread;          //  running mean and mean deviation
    uint32_t reads;
    float first [COST_FIRST];           //  of log seconds, in ascending order: the mean begins as their
                                        //  median
} cost_cell_t;

typedef struct {
    double latency_seconds;             //  of a single read, without its bytes
    double serial_seconds;              //  for each read, not hidden by any depth
    double bytes_per_second;
    uint64_t observed;                  //  reads behind the estimate
    uint32_t depth_set;                 //  by the user; 0: not set
    //  the model's
    double anchor_latency, anchor_serial, anchor_bandwidth;         //  assumed or probed
    bool is_anchored;                   //  the anchor is known, not assumed
    uint64_t fitted;                    //  value of `observed` at the last fit
    uint32_t asked;                     //  times that the next depth was
    cost_cell_t cells [COST_SIZES] [COST_DEPTHS];
} cost_t;

//  Beginning: what is assumed of an unmeasured source (an SSD).
cost_t cost_assumed (void);
//  The same for a source with these three numbers known: latency > 0, 0 < serial <= latency, bandwidth > 0.
cost_t cost_known (double latency_seconds, double serial_seconds, double bytes_per_second);
//  Reads blocks and MiBs of the file at random places, first one after the other, then several at once, past
//  the page cache where the file system lets it; some 50 ms, where a read takes long some ten of its times,
//  and after limit_ms no read is begun.  0 and the model is the measured one, settings kept; or -errno and it
//  is as it was: what open or read say, -EINVAL no file, -ENODATA an empty one, -ETIME limit_ms was too short
//  for one block.
int cost_probe (cost_t *self, const char *path, uint32_t limit_ms);
//  The same of any source, of size_bytes > 0, by its read: 0 or -errno; called by several threads at once.
typedef struct {
    int (*read) (void *context, uint8_t *memory, size_t bytes, uint64_t offset);
    void *context;
    uint64_t size_bytes;
} cost_source_t;
int cost_probe_source (cost_t *self, const cost_source_t *source, uint32_t limit_ms);
//  A read of so many bytes took so long while `in_flight` reads were under way, itself included.  Some 100
//  ns; every few reads some 100 us.
void cost_observe (cost_t *self, uint64_t bytes, uint64_t nanoseconds, uint32_t in_flight);

//  Fits now, and takes the result as the anchor for what reads do not determine; the probe ends with it.
void cost_anchor (cost_t *self);

//  The depth at which single reads of so many bytes reach 0.95 of the best throughput, plus one, because
//  times vary; 1 .. depth_max.
uint32_t cost_depth (const cost_t *self, uint64_t read_bytes, uint32_t depth_max);
//  The same for a reader that asks again and again: every eighth time it is twice as many, because reads at a
//  single depth do not show whether more would help.
uint32_t cost_next_depth (cost_t *self, uint64_t read_bytes, uint32_t depth_max);
//  Samples of a piece: the least power of two with which `depth` reads in flight reach 0.95 of the bandwidth,
//  at least `least`, at most `most`.  pool_samples: how many fit in memory; a piece is at most a 32nd of
//  these (mixing), or `least`.
uint32_t cost_piece (const cost_t *self, double sample_bytes, uint32_t depth, uint64_t pool_samples,
    uint32_t least, uint32_t most);
//  Whether reading `useful` samples of a piece one by one is cheaper than the whole piece.
bool cost_prefers_singles (const cost_t *self, uint32_t useful, double sample_bytes, double piece_bytes,
    uint32_t depth);
//  Bytes a second of reads of read_bytes at that depth.
double cost_rate (const cost_t *self, double read_bytes, uint32_t depth);

#endif

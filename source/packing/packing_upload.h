/*  packing_upload -- a pack goes to an object store: each volume when it is finished, the index last.
 *
 *  The target of the packing is then a folder for what is under way.  A volume is handed over when the
 *  journal says that it is durable; a thread works out its SHA-256 and sends it by one PUT, up to
 *  PACKING_UPLOADS at once.  When the store has confirmed it, its size and version (ETag) are recorded in
 *  PACKING_FOLDER/uploads, durably, and then the volume is deleted.  When all have been sent, all are asked
 *  for their first block, size and version, and then the index is sent.  So the store holds an index and all
 *  that belongs to it, or no index: a whole pack, or none.
 *
 *  failure modes:  what may pass is tried again for patience_ms.  Then the packing ends with a sentence, and
 *                  --resume goes on: a volume with a record is asked for, and not sent again if the store
 *                  has it as it was sent.  If the process is killed between a PUT and its record, the volume
 *                  is sent once more.
 *  on close:       transfers under way are dropped; the store keeps nothing of them.
 *
 *  The bucket has no lock.  Just before each PUT the store is asked whether the index of another pack has
 *  come meanwhile: then nothing more is sent.  What comes between that answer and the end of the PUT is not
 *  seen.
 *  Two packings into one prefix that are both under way are seen by the volumes' versions at the end: the one
 *  that ends last fails, or both.
 *
 *  Owner: the packing's thread.
 */
#ifndef PACKING_UPLOAD_H
#define PACKING_UPLOAD_H
#include "packing_state.h"

#define PACKING_UPLOADS_NAME "uploads"

enum { PACKING_UPLOADS = 4 };

//  0, or -errno with a sentence: no such store, no keys, it does not answer ..  packing->upload is NULL then.
//  Asks the store whether a pack is there.
int packing_upload_open (packing_t *packing);
void packing_upload_destroy (packing_upload_t **self_p);

//  The header of the pack that the store held when it was asked; NULL: it held none.
const pack_header_t *packing_upload_found (const packing_upload_t *self);
//  -EEXIST, and the sentence that another pack is there now.
int packing_upload_fail_other (const packing_t *packing);
//  The same: an object with the index's name is there, and no index.
int packing_upload_fail_no_pack (const packing_t *packing);
//  Makes the records, or reads those of a resumed packing.  A new one writes a few bytes to the first
//  volume's object, so that keys that may not write are told now.
int packing_upload_begin (packing_upload_t *self);
//  0, or -EFBIG and a sentence: a volume is larger than a store takes by one PUT.
int packing_upload_check (const packing_t *packing, const pack_volume_t *volumes, uint32_t count);
//  Asks the store for the volumes that have records; those that it has are deleted here, if they are there.
int packing_upload_go_on (packing_upload_t *self, const packing_plan_t *plan);
bool packing_upload_is_sent (const packing_upload_t *self, uint32_t volume);
//  The volumes below `end` are finished and durable.  Also looks after those that were handed over before.
int packing_upload_hand_over (packing_upload_t *self, uint32_t end);
//  Waits until all volumes are in the store.
int packing_upload_finish (packing_upload_t *self);
//  Sends the target's index, which makes it a pack.
int packing_upload_index (packing_upload_t *self);

#endif

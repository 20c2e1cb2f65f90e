/* Ids: automatic ones are the handle in another guise, so that neither direction needs a table. */
#include "id.h"

uint64_t mmsb__record_id(uint32_t index, uint64_t state) {
    const mmsb__record_t *record = mmsb__record_at(index);
    if (state & MMSB__EXPLICIT_ID)
        return mmsb__table.sides[record->side].id;
    return mmsb__automatic_id(mmsb__context_record(mmsb__record_context(index)),
                              MMSB__HANDLE(MMSB_KIND_PAGE, MMSB__HANDLE_GENERATION(state), index));
}

mmsb_page_t mmsb__page_find(const mmsb__context_record_t *context, uint64_t id) {
    if ((id & ~MMSB__ID_MASK) != MMSB__ID_AUTOMATIC)
        return 0;
    uint64_t page = ((id * context->id_inverse) & MMSB__ID_MASK) | (uint64_t)MMSB_KIND_PAGE << 60;
    uint64_t state = mmsb__state_load(mmsb__record_of(page));
    if (!mmsb__state_is(state, page) || (state & MMSB__EXPLICIT_ID) ||
        mmsb__record_context(MMSB__HANDLE_INDEX(page)) != context->index)
        return 0;
    return page;
}

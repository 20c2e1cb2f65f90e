/* A program of somebody else, as C and as C++: finds the header, links, and uses a page. */
#include <mmsb.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    if (strcmp(mmsb_version(), MMSB_VERSION_STRING) != 0 || mmsb_abi_version() != MMSB_ABI_VERSION) {
        fprintf(stderr, "header %s, library %s\n", MMSB_VERSION_STRING, mmsb_version());
        return 1;
    }
    mmsb_context_t context;
    mmsb_page_t page;
    char text[6] = "";
    if (mmsb_context_create(NULL, &context) != MMSB_OK || mmsb_page_create(context, 4096, NULL, &page) != MMSB_OK ||
        mmsb_page_write(page, 7, "hello", 6) != MMSB_OK || mmsb_page_read(page, 7, text, 6) != MMSB_OK ||
        mmsb_context_destroy(context) != MMSB_OK) {
        fprintf(stderr, "%s\n", mmsb_last_error());
        return 1;
    }
    return strcmp(text, "hello");
}

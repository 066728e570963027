#include "page.h"

//  As it is: a literal of this size is more than C compilers must take.
__asm__ (
    ".section .rodata\n"
    ".global page_text\n"
    "page_text: .incbin \"" PAGE_FILE "\"\n"
    "page_end: .byte 0\n"
    ".balign 8\n"
    ".global page_bytes\n"
    "page_bytes: .quad page_end - page_text\n"
    ".type page_text, %object\n"
    ".type page_bytes, %object\n"
    ".size page_bytes, 8\n"
    ".text\n");

// A libFuzzer target for tree-sitter-bash, with the checks that core/shell/tree/syntax.py makes
// before it parses. `make fuzz-parser-c` builds it with the sources of the pinned releases.
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef CHECKED_CTYPE
// Included before every source. The tables of the C library have 256 entries, and no sanitizer
// detects reads beyond them.
static inline int checked_isdigit(long c) {
    if (c < -1 || c > 255) {
        fprintf(stderr, "isdigit(%ld) reads beyond its table\n", c);
        abort();
    }
    return c >= '0' && c <= '9';
}
#undef isdigit
#define isdigit(c) checked_isdigit(c)
#else
#include "tree_sitter/api.h"

enum { MAX_BYTES = 65536, LONG = 512, CHUNK = 64, MOST_READS = 16, MOST_OPENED = 1000 };

const TSLanguage *tree_sitter_bash(void);

static TSParser *parser;
static TSQuery *query;
static volatile unsigned long sink;

typedef struct {
    const char *text;
    uint32_t size, reads, most, chunk;
    char *copy;  // a new copy each time, so that invalid reads are detected
} Input;

static bool continues(char byte) { return (byte & 0xc0) == 0x80; }

static const char *read_chunk(void *payload, uint32_t at, TSPoint point, uint32_t *size) {
    Input *input = payload;
    (void)point;
    *size = 0;
    if (++input->reads > input->most || at >= input->size) return "";
    uint32_t end = at + input->chunk < input->size ? at + input->chunk : input->size;
    while (end < input->size && continues(input->text[end])) end++;
    free(input->copy);
    input->copy = malloc(end - at);
    memcpy(input->copy, input->text + at, end - at);
    *size = end - at;
    return input->copy;
}

// Only valid UTF-8 reaches the parser, because Python encodes the text.
static size_t encoded(const uint8_t *from, size_t size, char *to) {
    size_t at = 0, written = 0;
    while (at < size) {
        uint8_t c = from[at];
        int more = c < 0x80 ? 0 : c < 0xc2 ? -1 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : c < 0xf5 ? 3 : -1;
        bool valid = more >= 0 && at + more < size;
        for (int i = 1; valid && i <= more; i++) valid = continues(from[at + i]);
        if (valid && more > 1) {
            uint8_t next = from[at + 1];
            valid = !((c == 0xe0 && next < 0xa0) || (c == 0xed && next >= 0xa0) ||
                      (c == 0xf0 && next < 0x90) || (c == 0xf4 && next >= 0x90));
        }
        if (!valid) {
            to[written++] = '?';
            at++;
            continue;
        }
        for (int i = 0; i <= more; i++) to[written++] = from[at++];
    }
    return written;
}

static size_t digits(const char *text, size_t size, size_t at) {
    while (at < size && text[at] >= '0' && text[at] <= '9') at++;
    return at;
}

// `_ends_the_parser` of syntax.py.
static bool refused(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (text[i] != '{') continue;
        size_t at = digits(text, size, i + 1);
        if (at < size && (uint8_t)text[at] >= 0xc4) return true;
        if (at + 1 >= size || text[at] != '.' || text[at + 1] != '.') continue;
        at = digits(text, size, at + 2);
        if (at < size && (uint8_t)text[at] >= 0xc4) return true;
    }
    return false;
}

static unsigned pairs(const char *text, size_t size, char first, char second) {
    unsigned found = 0;
    for (size_t i = 0; i + 1 < size; i++) {
        if (text[i] == first && text[i + 1] == second) found++, i++;
    }
    return found;
}

static void visit(TSNode node, uint32_t size, bool around) {
    uint32_t start = ts_node_start_byte(node), end = ts_node_end_byte(node);
    if (start > end || end > size) {
        fprintf(stderr, "a node from %u to %u of %u\n", start, end, size);
        abort();
    }
    sink += strlen(ts_node_type(node)) + ts_node_child_count(node);
    if (!around) return;  // these calls take time in proportion to the depth of the tree
    sink += ts_node_is_null(ts_node_next_sibling(node)) + ts_node_is_null(ts_node_parent(node));
    sink += ts_node_is_null(ts_node_child_by_field_name(node, "name", 4));
}

static void walk(TSTree *tree, uint32_t size) {
    if (tree == NULL) return;
    TSNode root = ts_tree_root_node(tree);
    TSTreeCursor cursor = ts_tree_cursor_new(root);
    for (unsigned visited = 0;; visited++) {
        visit(ts_tree_cursor_current_node(&cursor), size, visited < 25);
        if (ts_tree_cursor_goto_first_child(&cursor)) continue;
        bool more;
        while (!(more = ts_tree_cursor_goto_next_sibling(&cursor)) &&
               ts_tree_cursor_goto_parent(&cursor)) {
        }
        if (!more) break;
    }
    ts_tree_cursor_delete(&cursor);
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t at = (uint64_t)size * i / 64;
        sink += ts_node_is_null(ts_node_descendant_for_byte_range(root, at, at));
    }
    TSQueryCursor *captures = ts_query_cursor_new();
    TSQueryMatch match;
    uint32_t index;
    ts_query_cursor_exec(captures, query, root);
    while (ts_query_cursor_next_capture(captures, &match, &index)) sink += match.capture_count;
    ts_query_cursor_delete(captures);
    ts_tree_delete(tree);
}

// Return how often the parser requested text.
static uint32_t parse_chunks(const char *text, uint32_t size, uint32_t most, uint32_t chunk) {
    Input input = {text, size, 0, most, chunk, NULL};
    TSInput given = {&input, read_chunk, TSInputEncodingUTF8, NULL};
    walk(ts_parser_parse(parser, NULL, given), size);
    free(input.copy);
    return input.reads;
}

int LLVMFuzzerInitialize(int *count, char ***arguments) {
    (void)count, (void)arguments;
    const char *doubtful = "(heredoc_redirect) @heredoc (comment) @comment";
    uint32_t offset;
    TSQueryError error;
    parser = ts_parser_new();
    ts_parser_set_language(parser, tree_sitter_bash());
    query = ts_query_new(tree_sitter_bash(), doubtful, strlen(doubtful), &offset, &error);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length) {
    if (length == 0 || length > MAX_BYTES) return -1;
    char *text = malloc(length);
    size_t size = encoded(data, length, text);
    text = realloc(text, size);
    bool tangled = pairs(text, size, '$', '{') > MOST_OPENED || pairs(text, size, '<', '<') > MOST_OPENED;
    if (refused(text, size) || tangled) {
        free(text);
        return -1;
    }
    uint32_t most = MOST_READS * (size / CHUNK + 1);
    tangled = parse_chunks(text, size, most, CHUNK) > most;
    if (size < 4096) parse_chunks(text, size, 2 + size * 7 % 23, 1 + size % 9);  // the text ends too early
    if (!tangled || size <= LONG) {
        walk(ts_parser_parse_string_encoding(parser, NULL, text, size, TSInputEncodingUTF8), size);
    }
    free(text);
    return 0;
}
#endif

/*
 * bases.c — LMDB, RocksDB and SQLite as stores of numbered values; peers.sh has put the libraries into the folder BENCH_PEERS.
 * Each is set up as its manual advises for durable commits: LMDB with its defaults, RocksDB with what is written until a commit
 * in one batch whose log is synced, SQLite with a write-ahead log and synchronous = FULL.
 */
#include "bases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench.h"

#define CACHE_BYTES ((uint64_t)256 << 20)
#define MOST_BYTES ((uint64_t)8 << 30)

void bench_see(bench_seen_t *seen, const void *bytes, size_t length) {
    bench_value_head_t head;
    memcpy(&head, bytes, sizeof head);
    for (size_t at = 0; at < length; at += 8) {
        uint64_t word;
        memcpy(&word, (const char *)bytes + at, sizeof word);
        seen->sum += word;
    }
    seen->values++;
    if (head.change > seen->newest)
        seen->newest = head.change;
}

/* -------------------------------------------------------------------------------------------------------- LMDB ---- */

typedef struct lmdb_value {
    size_t size;
    void *data;
} lmdb_value_t;

enum { LMDB_FIRST = 0, LMDB_NEXT = 8, LMDB_INTEGER_KEYS = 0x08, LMDB_READ = 0x20000, LMDB_CREATE = 0x40000 };

static struct {
    char *(*version)(int *major, int *minor, int *patch);
    char *(*strerror)(int error);
    int (*env_create)(void **env);
    int (*env_set_mapsize)(void *env, size_t size);
    int (*env_open)(void *env, const char *path, unsigned flags, unsigned mode);
    void (*env_close)(void *env);
    int (*txn_begin)(void *env, void *parent, unsigned flags, void **txn);
    int (*txn_commit)(void *txn);
    void (*txn_abort)(void *txn);
    int (*dbi_open)(void *txn, const char *name, unsigned flags, unsigned *dbi);
    int (*put)(void *txn, unsigned dbi, lmdb_value_t *key, lmdb_value_t *value, unsigned flags);
    int (*cursor_open)(void *txn, unsigned dbi, void **cursor);
    int (*cursor_get)(void *cursor, lmdb_value_t *key, lmdb_value_t *value, int operation);
    void (*cursor_close)(void *cursor);
    void *env, *txn;
    unsigned dbi;
} lmdb;

static void lmdb_check(int error, const char *what) {
    if (error != 0)
        bench_fail("LMDB: %s: %s", what, lmdb.strerror(error));
}

static bool lmdb_there(void) {
    static const bench_symbol_t symbols[] = {
        {"mdb_version", &lmdb.version},
        {"mdb_strerror", &lmdb.strerror},
        {"mdb_env_create", &lmdb.env_create},
        {"mdb_env_set_mapsize", &lmdb.env_set_mapsize},
        {"mdb_env_open", &lmdb.env_open},
        {"mdb_env_close", &lmdb.env_close},
        {"mdb_txn_begin", &lmdb.txn_begin},
        {"mdb_txn_commit", &lmdb.txn_commit},
        {"mdb_txn_abort", &lmdb.txn_abort},
        {"mdb_dbi_open", &lmdb.dbi_open},
        {"mdb_put", &lmdb.put},
        {"mdb_cursor_open", &lmdb.cursor_open},
        {"mdb_cursor_get", &lmdb.cursor_get},
        {"mdb_cursor_close", &lmdb.cursor_close},
    };
    return bench_library("liblmdb.so.0", symbols, sizeof symbols / sizeof symbols[0]);
}

static void lmdb_open(const char *folder) {
    mkdir(folder, 0700);
    lmdb_check(lmdb.env_create(&lmdb.env), "env_create");
    lmdb_check(lmdb.env_set_mapsize(lmdb.env, MOST_BYTES), "env_set_mapsize");
    lmdb_check(lmdb.env_open(lmdb.env, folder, 0, 0600), folder);
    lmdb_check(lmdb.txn_begin(lmdb.env, NULL, 0, &lmdb.txn), "txn_begin");
    lmdb_check(lmdb.dbi_open(lmdb.txn, NULL, LMDB_INTEGER_KEYS | LMDB_CREATE, &lmdb.dbi), "dbi_open");
}

static void lmdb_begin(void) {
    if (!lmdb.txn)
        lmdb_check(lmdb.txn_begin(lmdb.env, NULL, 0, &lmdb.txn), "txn_begin");
}

static void lmdb_put(uint64_t number, const void *bytes, size_t length) {
    lmdb_value_t key = {sizeof number, &number}, value = {length, (void *)(uintptr_t)bytes};
    lmdb_begin();
    lmdb_check(lmdb.put(lmdb.txn, lmdb.dbi, &key, &value, 0), "put");
}

static void lmdb_commit(void) {
    lmdb_begin();
    lmdb_check(lmdb.txn_commit(lmdb.txn), "txn_commit");
    lmdb.txn = NULL;
}

static void lmdb_see(bench_seen_t *seen) {
    lmdb_value_t key, value;
    void *txn, *cursor;
    lmdb_commit();
    lmdb_check(lmdb.txn_begin(lmdb.env, NULL, LMDB_READ, &txn), "txn_begin");
    lmdb_check(lmdb.cursor_open(txn, lmdb.dbi, &cursor), "cursor_open");
    for (int move = LMDB_FIRST; lmdb.cursor_get(cursor, &key, &value, move) == 0; move = LMDB_NEXT)
        bench_see(seen, value.data, value.size);
    lmdb.cursor_close(cursor);
    lmdb.txn_abort(txn);
}

static void lmdb_close(void) {
    if (lmdb.txn)
        lmdb_commit();
    lmdb.env_close(lmdb.env);
}

/* ----------------------------------------------------------------------------------------------------- RocksDB ---- */

static struct {
    void *(*options_create)(void);
    void (*options_set_create_if_missing)(void *options, unsigned char set);
    void (*options_set_compression)(void *options, int kind);
    void *(*writeoptions_create)(void);
    void (*writeoptions_set_sync)(void *options, unsigned char set);
    void *(*readoptions_create)(void);
    void (*readoptions_set_readahead_size)(void *options, size_t size);
    void *(*open)(const void *options, const char *path, char **error);
    void (*close)(void *db);
    void *(*writebatch_create)(void);
    void (*writebatch_put)(void *batch, const char *key, size_t key_length, const char *value, size_t length);
    void (*writebatch_clear)(void *batch);
    void (*write)(void *db, const void *options, void *batch, char **error);
    void (*compact_range)(void *db, const char *first, size_t first_length, const char *last, size_t last_length);
    void *(*create_iterator)(void *db, const void *options);
    void (*iter_seek_to_first)(void *iterator);
    unsigned char (*iter_valid)(const void *iterator);
    void (*iter_next)(void *iterator);
    const char *(*iter_value)(const void *iterator, size_t *length);
    void (*iter_destroy)(void *iterator);
    void *db, *synced, *reading, *batch;
} rocks;

static void rocks_check(const char *error) {
    if (error)
        bench_fail("RocksDB: %s", error);
}

static bool rocks_there(void) {
    static const bench_symbol_t symbols[] = {
        {"rocksdb_options_create", &rocks.options_create},
        {"rocksdb_options_set_create_if_missing", &rocks.options_set_create_if_missing},
        {"rocksdb_options_set_compression", &rocks.options_set_compression},
        {"rocksdb_writeoptions_create", &rocks.writeoptions_create},
        {"rocksdb_writeoptions_set_sync", &rocks.writeoptions_set_sync},
        {"rocksdb_readoptions_create", &rocks.readoptions_create},
        {"rocksdb_readoptions_set_readahead_size", &rocks.readoptions_set_readahead_size},
        {"rocksdb_open", &rocks.open},
        {"rocksdb_close", &rocks.close},
        {"rocksdb_writebatch_create", &rocks.writebatch_create},
        {"rocksdb_writebatch_put", &rocks.writebatch_put},
        {"rocksdb_writebatch_clear", &rocks.writebatch_clear},
        {"rocksdb_write", &rocks.write},
        {"rocksdb_compact_range", &rocks.compact_range},
        {"rocksdb_create_iterator", &rocks.create_iterator},
        {"rocksdb_iter_seek_to_first", &rocks.iter_seek_to_first},
        {"rocksdb_iter_valid", &rocks.iter_valid},
        {"rocksdb_iter_next", &rocks.iter_next},
        {"rocksdb_iter_value", &rocks.iter_value},
        {"rocksdb_iter_destroy", &rocks.iter_destroy},
    };
    return bench_library("libgflags.so.2.2", NULL, 0) && bench_library("libsnappy.so.1", NULL, 0) &&
           bench_library("librocksdb.so.7.8", symbols, sizeof symbols / sizeof symbols[0]);
}

static void rocks_open(const char *folder) {
    const int no_compression = 0; /* random bytes have nothing to compress */
    char *error = NULL;
    void *options = rocks.options_create();
    rocks.options_set_create_if_missing(options, 1);
    rocks.options_set_compression(options, no_compression);
    rocks.db = rocks.open(options, folder, &error);
    rocks_check(error);
    rocks.synced = rocks.writeoptions_create();
    rocks.writeoptions_set_sync(rocks.synced, 1);
    rocks.reading = rocks.readoptions_create();
    rocks.readoptions_set_readahead_size(rocks.reading, (size_t)4 << 20);
    rocks.batch = rocks.writebatch_create();
}

static void rocks_put(uint64_t number, const void *bytes, size_t length) {
    uint64_t key = __builtin_bswap64(number);
    rocks.writebatch_put(rocks.batch, (const char *)&key, sizeof key, bytes, length);
}

static void rocks_commit(void) {
    char *error = NULL;
    rocks.write(rocks.db, rocks.synced, rocks.batch, &error);
    rocks_check(error);
    rocks.writebatch_clear(rocks.batch);
}

static void rocks_see(bench_seen_t *seen) {
    void *iterator = rocks.create_iterator(rocks.db, rocks.reading);
    for (rocks.iter_seek_to_first(iterator); rocks.iter_valid(iterator); rocks.iter_next(iterator)) {
        size_t length;
        const char *value = rocks.iter_value(iterator, &length);
        bench_see(seen, value, length);
    }
    rocks.iter_destroy(iterator);
}

static void rocks_settle(void) {
    rocks_commit();
    rocks.compact_range(rocks.db, NULL, 0, NULL, 0);
}

static void rocks_close(void) {
    rocks_commit();
    rocks.close(rocks.db);
}

/* ------------------------------------------------------------------------------------------------------ SQLite ---- */

enum { SQLITE_DONE_ = 101, SQLITE_ROW_ = 100 };

static struct {
    int (*open)(const char *path, void **db);
    int (*close)(void *db);
    const char *(*errmsg)(void *db);
    int (*exec)(void *db, const char *text, void *call, void *user, char **error);
    int (*prepare_v2)(void *db, const char *text, int length, void **statement, const char **tail);
    int (*bind_int64)(void *statement, int place, int64_t value);
    int (*bind_blob)(void *statement, int place, const void *bytes, int length, void *destroy);
    int (*step)(void *statement);
    int (*reset)(void *statement);
    int (*finalize)(void *statement);
    const void *(*column_blob)(void *statement, int column);
    int (*column_bytes)(void *statement, int column);
    void *db, *put;
    bool begun;
} sqlite;

static bool sqlite_there(void) {
    static const bench_symbol_t symbols[] = {
        {"sqlite3_open", &sqlite.open},
        {"sqlite3_close", &sqlite.close},
        {"sqlite3_errmsg", &sqlite.errmsg},
        {"sqlite3_exec", &sqlite.exec},
        {"sqlite3_prepare_v2", &sqlite.prepare_v2},
        {"sqlite3_bind_int64", &sqlite.bind_int64},
        {"sqlite3_bind_blob", &sqlite.bind_blob},
        {"sqlite3_step", &sqlite.step},
        {"sqlite3_reset", &sqlite.reset},
        {"sqlite3_finalize", &sqlite.finalize},
        {"sqlite3_column_blob", &sqlite.column_blob},
        {"sqlite3_column_bytes", &sqlite.column_bytes},
    };
    return bench_library("libsqlite3.so.0", symbols, sizeof symbols / sizeof symbols[0]);
}

static void sqlite_run(const char *text) {
    if (sqlite.exec(sqlite.db, text, NULL, NULL, NULL) != 0)
        bench_fail("SQLite: %s: %s", text, sqlite.errmsg(sqlite.db));
}

static void *sqlite_statement(const char *text) {
    void *statement;
    if (sqlite.prepare_v2(sqlite.db, text, -1, &statement, NULL) != 0)
        bench_fail("SQLite: %s: %s", text, sqlite.errmsg(sqlite.db));
    return statement;
}

static void sqlite_open(const char *folder) {
    char text[4200];
    mkdir(folder, 0700);
    snprintf(text, sizeof text, "%s/base", folder);
    if (sqlite.open(text, &sqlite.db) != 0)
        bench_fail("SQLite: %s: %s", text, sqlite.errmsg(sqlite.db));
    snprintf(text, sizeof text, "PRAGMA cache_size = -%llu", (unsigned long long)CACHE_BYTES / 1024);
    sqlite_run(text);
    sqlite_run("PRAGMA journal_mode = WAL");
    sqlite_run("PRAGMA synchronous = FULL");
    sqlite_run("CREATE TABLE IF NOT EXISTS value (number INTEGER PRIMARY KEY, bytes BLOB)");
    sqlite.put = sqlite_statement("INSERT OR REPLACE INTO value VALUES (?, ?)");
    sqlite.begun = false;
}

static void sqlite_put(uint64_t number, const void *bytes, size_t length) {
    if (!sqlite.begun)
        sqlite_run("BEGIN IMMEDIATE");
    sqlite.begun = true;
    sqlite.bind_int64(sqlite.put, 1, (int64_t)number);
    sqlite.bind_blob(sqlite.put, 2, bytes, (int)length, NULL);
    if (sqlite.step(sqlite.put) != SQLITE_DONE_)
        bench_fail("SQLite: %s", sqlite.errmsg(sqlite.db));
    sqlite.reset(sqlite.put);
}

static void sqlite_commit(void) {
    if (sqlite.begun)
        sqlite_run("COMMIT");
    sqlite.begun = false;
}

static void sqlite_see(bench_seen_t *seen) {
    void *all = sqlite_statement("SELECT bytes FROM value");
    while (sqlite.step(all) == SQLITE_ROW_)
        bench_see(seen, sqlite.column_blob(all, 0), (size_t)sqlite.column_bytes(all, 0));
    sqlite.finalize(all);
}

static void sqlite_close(void) {
    sqlite_commit();
    sqlite.finalize(sqlite.put);
    if (sqlite.close(sqlite.db) != 0)
        bench_fail("SQLite: close: %s", sqlite.errmsg(sqlite.db));
}

const bench_base_t bench_bases[BENCH_BASES] = {
    {"LMDB", lmdb_there, lmdb_open, lmdb_put, lmdb_commit, lmdb_see, lmdb_commit, lmdb_close},
    {"RocksDB", rocks_there, rocks_open, rocks_put, rocks_commit, rocks_see, rocks_settle, rocks_close},
    {"SQLite", sqlite_there, sqlite_open, sqlite_put, sqlite_commit, sqlite_see, sqlite_commit, sqlite_close},
};

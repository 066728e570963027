/*  Settings: from the command line and from a file.  (Tenants and access: test_options_tenants.c.)  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "machine.h"
#include "option.h"
#include "options.h"
#include "seed.h"

enum { ARGUMENTS_MAX = 160, ERROR_BYTES = 512 };

static char s_config_path [] = "/tmp/test_options.XXXXXX";

//  Parses blank-separated arguments.
static option_status_t
s_parse (options_t *options, const char *arguments, char error [ERROR_BYTES])
{
    char *text = strdup (arguments), *argv [ARGUMENTS_MAX + 1] = { "serve" }, *rest = text;
    assert_non_null (text);
    int argc = 1;
    for (char *word; *arguments && (word = strsep (&rest, " ")) && argc < ARGUMENTS_MAX;)
        argv [argc++] = word;
    option_status_t status = options_parse (options, argc, argv, error, ERROR_BYTES);
    free (text);
    return status;
}

static options_t
s_parsed (const char *arguments)
{
    options_t options;
    char error [ERROR_BYTES];
    if (s_parse (&options, arguments, error) != OPTION_RUN)
        fail_msg ("%s: %s", arguments, error);
    assert_string_equal (error, "");
    return options;
}

static void
s_refused (const char *arguments, const char *fragment)
{
    options_t options;
    char error [ERROR_BYTES];
    if (s_parse (&options, arguments, error) != OPTION_WRONG)
        fail_msg ("taken: %s", arguments);
    if (!strstr (error, fragment))
        fail_msg ("%s: expected '%s', got '%s'", arguments, fragment, error);
    options_clear (&options);
}

static void
s_write (const char *path, const void *text, size_t size)
{
    FILE *file = fopen (path, "w");
    assert_non_null (file);
    assert_int_equal (fwrite (text, 1, size, file), size);
    assert_int_equal (fclose (file), 0);
}

//  Parses a file of this text, with more arguments before it.
static option_status_t
s_parse_file (options_t *options, const char *text, size_t size, const char *arguments,
    char error [ERROR_BYTES])
{
    char all [1024];
    s_write (s_config_path, text, size);
    snprintf (all, sizeof all, "%s%s--config %s", arguments, *arguments? " ": "", s_config_path);
    return s_parse (options, all, error);
}

static options_t
s_parsed_file (const char *text, const char *arguments)
{
    options_t options;
    char error [ERROR_BYTES];
    if (s_parse_file (&options, text, strlen (text), arguments, error) != OPTION_RUN)
        fail_msg ("%s: %s", text, error);
    return options;
}

static void
s_refused_file (const char *text, size_t line, const char *fragment)
{
    options_t options;
    char error [ERROR_BYTES], place [64];
    if (s_parse_file (&options, text, strlen (text), "", error) != OPTION_WRONG)
        fail_msg ("taken: %s", text);
    if (line)
        snprintf (place, sizeof place, "%s:%zu: ", s_config_path, line);
    else
        snprintf (place, sizeof place, "%s: ", s_config_path);
    if (strncmp (error, place, strlen (place)) != 0 || !strstr (error, fragment))
        fail_msg ("%s: expected '%s' and '%s', got '%s'", text, place, fragment, error);
    options_clear (&options);
}

//  --- Command line -----------------------------------------------------------------------------------------

static void
sizes (void **state)
{
    (void) state;
    static const struct { const char *text; uint64_t bytes; } good [] = {
        { "0", 0 }, { "1", 1 }, { "64M", 67108864 }, { "4G", UINT64_C (1) << 32 }, { "1K", 1024 },
        { "1KiB", 1024 },
        { "1KB", 1024 }, { "7B", 7 }, { "2TiB", UINT64_C (1) << 41 }, { "007M", 7 << 20 },
        { "9223372036854775808", UINT64_C (1) << 63 }, { "8388608T", UINT64_C (1) << 63 },
    };
    uint64_t bytes;
    for (size_t index = 0; index < sizeof good / sizeof *good; index++) {
        if (!option_size (good [index].text, &bytes))
            fail_msg ("%s", good [index].text);
        assert_true (bytes == good [index].bytes);
    }
    static const char *const bad [] = { "", " ", "M", "64m", "64MM", "64 M", " 64", "-1", "+1", "0x10",
        "1.5G", "1iB", "1Ki", "1KIB", "1P", "1BB", "64M ", "9223372036854775809", "18446744073709551616",
        "8388609T", "16777216T",
        "99999999999999999999999999", "9223372036854775809B", "18014398509481984K" };
    for (size_t index = 0; index < sizeof bad / sizeof *bad; index++)
        if (option_size (bad [index], &bytes))
            fail_msg ("taken: '%s'", bad [index]);
}

static void
both_ways_to_write_an_option (void **state)
{
    (void) state;
    static const char *const ways [] = {
        "--dataset train=/data/a=b --listen tcp://127.0.0.1:5555 --cache 64M --workers 3 --policy dsa",
        "--dataset=train=/data/a=b --listen=tcp://127.0.0.1:5555 --cache=64M --workers=3 --policy=dsa",
        //  The last one counts.
        ("--cache 1 --dataset=train=/data/a=b --listen=x --listen tcp://127.0.0.1:5555 --cache 64M "
            "--workers=3 --policy=dsa"),
    };
    for (size_t index = 0; index < 3; index++) {
        options_t options = s_parsed (ways [index]);
        assert_int_equal (options.dataset_count, 1);
        assert_string_equal (options.datasets [0].name, "train");
        assert_string_equal (options.datasets [0].path, "/data/a=b");
        assert_string_equal (options.listen, "tcp://127.0.0.1:5555");
        assert_int_equal (options.cache_bytes, 67108864);
        assert_int_equal (options.workers, 3);
        assert_string_equal (options.policy, "dsa");
        options_clear (&options);
    }
}

//  Parts that are not given are left to the division.
static void
memory (void **state)
{
    (void) state;
    options_t options = s_parsed ("--dataset a=b --memory 4G --cache 1G");
    assert_true (options.memory_bytes == UINT64_C (4) << 30);
    assert_true (options.cache_bytes == UINT64_C (1) << 30);
    assert_true (options.raw_bytes == 0 && !options.raw_is_given);
    options_clear (&options);
    options = s_parsed_file ("memory = 64M\ndataset\n    a = /b\n", "");
    assert_true (options.memory_bytes == 64 << 20 && options.cache_bytes == 0);
    options_clear (&options);
}

//  Seconds may be left out on the command line; in a file they may not.
static void
until_idle (void **state)
{
    (void) state;
    static const struct { const char *arguments; uint32_t seconds; } ways [] = {
        { "--dataset a=b", 0 }, { "--until-idle --dataset a=b", 10 }, { "--dataset a=b --until-idle", 10 },
        { "--dataset a=b --until-idle 7", 7 }, { "--dataset a=b --until-idle=604800", 604800 }
    };
    for (size_t index = 0; index < sizeof ways / sizeof *ways; index++) {
        options_t options = s_parsed (ways [index].arguments);
        assert_int_equal (options.until_idle, ways [index].seconds);
        options_clear (&options);
    }
    options_t options = s_parsed_file ("until-idle = 30\ndataset\n    a = /b\n", "");
    assert_int_equal (options.until_idle, 30);
    options_clear (&options);
    options = s_parsed_file ("until-idle = 30\ndataset\n    a = /b\n", "--until-idle");
    assert_int_equal (options.until_idle, 10);
    options_clear (&options);
}

//  A switch: it may stand alone on the command line, also before something else; in a file it has a value,
//  which that overrides.
static void
supervise (void **state)
{
    (void) state;
    static const struct { const char *arguments; bool on; } ways [] = {
        { "--dataset a=b", false }, { "--supervise --dataset a=b", true },
        { "--dataset a=b --supervise", true },
        { "--supervise=1 --dataset a=b", true }, { "--supervise=0 --dataset a=b", false }
    };
    for (size_t index = 0; index < sizeof ways / sizeof *ways; index++) {
        options_t options = s_parsed (ways [index].arguments);
        assert_int_equal (options.supervise, ways [index].on);
        options_clear (&options);
    }
    static const char file [] = "supervise = 1\ndataset\n    a = /b\n";
    options_t options = s_parsed_file (file, "");
    assert_true (options.supervise);
    options_clear (&options);
    options = s_parsed_file (file, "--supervise=0");
    assert_false (options.supervise);
    options_clear (&options);
}

static void
defaults (void **state)
{
    (void) state;
    options_t options = s_parsed ("--dataset a=b");
    assert_null (options.listen);
    assert_int_equal (options.cache_bytes, machine_memory_bytes ("") / 4);
    assert_true (options.cache_bytes > 0);
    assert_int_equal (options.workers, machine_processors (""));
    assert_string_equal (options.policy, "follow");
    options_clear (&options);
    options_clear (&options);
    assert_int_equal (options.dataset_count, 0);
}

static void
many_datasets (void **state)
{
    (void) state;
    char arguments [4096] = "";
    for (size_t index = 0; index < OPTIONS_DATASETS_MAX; index++)
        sprintf (arguments + strlen (arguments), "--dataset d%zu=/x/%zu ", index, index);
    strcat (arguments, "--workers 1");
    options_t options = s_parsed (arguments);
    assert_int_equal (options.dataset_count, OPTIONS_DATASETS_MAX);
    assert_string_equal (options.datasets [63].name, "d63");
    assert_string_equal (options.datasets [63].path, "/x/63");
    options_clear (&options);
    strcat (arguments, " --dataset more=/x");
    s_refused (arguments, "dataset more: there are more than 64");
}

//  Settings of data sets: before the data set or after it, in order.
static void
settings_of_datasets (void **state)
{
    (void) state;
    options_t options = s_parsed ("--field a.b.mask=mask:/m=1 --dataset a.b=/a --on-bad=a.b=fail --dataset "
        "c=/c --field a.b.depth_2=image:/d --jpeg-warnings c=0 --tier c=redox --piece c=64 --raw 3G "
        "--reads 7 --patience 90 --extensions c=.wav,.FLAC --on-bad a.b=drop --on-bad a.b=fail");
    const options_dataset_t *first = &options.datasets [0], *second = &options.datasets [1];
    assert_int_equal (first->field_count, 2);
    assert_string_equal (first->fields [0].name, "mask");
    assert_true (first->fields [0].is_mask);
    assert_string_equal (first->fields [0].path, "/m=1");
    assert_string_equal (first->fields [1].name, "depth_2");
    assert_false (first->fields [1].is_mask);
    assert_string_equal (first->fields [1].path, "/d");
    assert_true (first->bad_is_fatal);
    assert_null (first->extensions);
    assert_true (first->jpeg_warnings_max == UINT32_MAX);
    assert_int_equal (second->field_count, 0);
    assert_false (second->bad_is_fatal);
    assert_string_equal (second->extensions, ".wav,.FLAC");
    assert_int_equal (second->jpeg_warnings_max, 0);
    assert_null (first->tier);
    assert_int_equal (first->piece, 0);
    assert_string_equal (second->tier, "redox");
    assert_int_equal (second->piece, 64);
    assert_true (options.raw_bytes == UINT64_C (3) << 30);
    assert_true (options.memory_bytes == 0);
    assert_int_equal (options.reads, 7);
    assert_int_equal (options.patience, 90);
    options_clear (&options);
}

//  The size is behind the last '='; the command line's wins.  The older name, block-cache, is the same
//  setting.
static void
the_cache_on_the_local_disk (void **state)
{
    (void) state;
    options_t options = s_parsed ("--dataset a=/x --disk /b=c/d=3G");
    assert_string_equal (options.blocks_folder, "/b=c/d");
    assert_true (options.blocks_bytes == UINT64_C (3) << 30);
    options_clear (&options);
    static const char *const texts [] = { "dataset\n    a = /x\ndisk = \"/e=2M\"\n",
        "dataset\n    a = /x\nblock-cache = \"/e=2M\"\n" };
    for (size_t name = 0; name < 2; name++) {
        options = s_parsed_file (texts [name], "");
        assert_string_equal (options.blocks_folder, "/e");
        assert_true (options.blocks_bytes == 2 << 20);
        options_clear (&options);
        options = s_parsed_file (texts [name], "--disk /b=1M");
        assert_string_equal (options.blocks_folder, "/b");
        options_clear (&options);
        options = s_parsed_file (texts [name], "--block-cache=/b=1M");
        assert_string_equal (options.blocks_folder, "/b");
        options_clear (&options);
    }
    options = s_parsed ("--dataset a=/x");
    assert_null (options.blocks_folder);
    options_clear (&options);
}

static void
many_fields (void **state)
{
    (void) state;
    char arguments [1024] = "--dataset a=/x";
    for (int index = 0; index < OPTIONS_FIELDS_MAX; index++)
        sprintf (arguments + strlen (arguments), " --field a.f%d=mask:/m%d", index, index);
    options_t options = s_parsed (arguments);
    assert_int_equal (options.datasets [0].field_count, OPTIONS_FIELDS_MAX);
    assert_string_equal (options.datasets [0].fields [6].path, "/m6");
    options_clear (&options);
    strcat (arguments, " --field a.more=mask:/m");
    s_refused (arguments, "field more: data set 'a' has more than 7");
}

static void
help_comes_first (void **state)
{
    (void) state;
    options_t options;
    char error [ERROR_BYTES];
    static const char *const asks [] = { "-h", "--help", "--dataset a=b -h",
        "--workers 3 --help --nonsense" };
    for (size_t index = 0; index < 4; index++) {
        assert_int_equal (s_parse (&options, asks [index], error), OPTION_HELP);
        options_clear (&options);
    }
    static const char *const words [] = { "--dataset NAME=PATH", "--listen ENDPOINT", "--cache BYTES",
        "--memory BYTES", "--workers N",
        "--field NAME.FIELD=mask:DIR", "--extensions NAME=.wav,.flac", "--on-bad NAME=drop|fail",
        "--jpeg-warnings NAME=N",
        "--tier NAME=stream", "--piece NAME=N", "--raw BYTES", "--reads N", "--patience SECONDS",
        "--policy NAME", "--config FILE", "--help", "ipc://$XDG_RUNTIME_DIR/tureen/server.sock",
        "ipc:///tmp/tureen-UID/server.sock", "quarter", "1 to 1024", "dsa", "1024: 512M", "Example" };
    char *help;
    size_t size;
    FILE *stream = open_memstream (&help, &size);
    assert_non_null (stream);
    option_help (options_table (), stream);
    fclose (stream);
    for (size_t index = 0; index < sizeof words / sizeof *words; index++)
        if (!strstr (help, words [index]))
            fail_msg ("no '%s' in the help", words [index]);
    free (help);
}

typedef struct {
    const char *arguments, *fragment;       //  of the error
} refused_t;

static void
s_all_refused (const refused_t *cases, size_t count)
{
    for (size_t index = 0; index < count; index++)
        s_refused (cases [index].arguments, cases [index].fragment);
}

static void
arguments_refused (void **state)
{
    (void) state;
    static const refused_t cases [] = {
        { "", "no data set: name one, as in tureen serve --dataset train=/data/train" },
        { "--workers 3", "no data set" },
        { "train", "unexpected argument 'train'" },
        { "-v", "unknown option '-v'; see `tureen serve --help`" },
        { "-- --workers", "unexpected argument '--workers'" },
        { "--=x", "unknown option '--=x'" },
        { "--datasets a=b", "unknown option '--datasets'; did you mean '--dataset'?" },
        { "--chace 4G", "unknown option '--chace'; did you mean '--cache'?" },
        { "--worker=4", "did you mean '--workers'?" },
        { "--hlep", "did you mean '--help'?" },
        { "--frobnicate 4", "unknown option '--frobnicate'; see `tureen serve --help`" },
        { "--0123456789012345678901234567890123456789012345678901234567890123456789 4",
            "unknown option '--0123" },
        { "--help=1", "option '--help' takes no value" },
        { "--dataset", "option '--dataset' needs a value: NAME=PATH" },
        { "--cache", "option '--cache' needs a value" },
        { "--cache --workers 3", "option '--cache' needs a value" },
        { "--config", "option '--config' needs a value" },
        { "--config a --config b", "--config is given twice: a and b" },
        { "--listen=", "listen: the value is missing" },
        { "--dataset train", "expected NAME=PATH, got 'train'" },
        { "--dataset =/data", "a name has 1 to 64 letters, digits, '.', '_' or '-', got ''" },
        { "--dataset a/b=/data", "got 'a/b'" },
        { "--dataset a\033b=/data", "got 'a\\x1bb'" },
        { "--dataset 01234567890123456789012345678901234567890123456789012345678901234=/x",
            "a name has 1 to 64" },
        { "--dataset train=", "dataset train: the path is missing" },
        { "--dataset=", "expected NAME=PATH" },
        { "--dataset a=/x --dataset a=/y", "dataset a: there are two of that name: /x and /y" },
        { "--cache 0", "cache: expected a size in bytes, as in 512M or 4G, got '0'" },
        { "--cache 4g", "got '4g'" },
        { "--workers 0", "workers: expected a number from 1 to 1024, got '0'" },
        { "--workers 1025", "got '1025'" },
        { "--workers 99999999999999999999", "got '99999999999999999999'" },
        { "--workers 4x", "got '4x'" },
        { "--workers -1", "got '-1'" },
        { "--until-idle 0", "until-idle: expected a number from 1 to 604800, got '0'" },
        { "--until-idle soon", "got 'soon'" },
        { "--until-idel", "did you mean '--until-idle'?" },
        { "--policy resident", "policy: expected follow or dsa, got 'resident'" },
        { "--feild a.m=mask:/m", "did you mean '--field'?" },
        { "--on-bda a=fail", "did you mean '--on-bad'?" },
        { "--dataset a=/x --memory 12X", "memory: expected a size in bytes, as in 512M or 4G, got '12X'" },
        { "--dataset a=/x --raw 12X", "raw: expected a size in bytes, as in 512M or 4G, got '12X'" },
        { "--dataset a=/x --disk /b", "disk: expected DIR=BYTES, as in /var/cache/tureen=200G, "
            "got '/b'" },
        { "--dataset a=/x --disk =1G", "disk: expected DIR=BYTES" },
        { "--dataset a=/x --disk /b=1023K", "disk: expected a size of 1M or more" },
        { "--dataset a=/x --disk /b=", "disk: expected a size of 1M or more" },
        { "--dataset a=/x --block-cache /b", "disk: expected DIR=BYTES" },
        { "--dataset a=/x --dsik /b=1G", "did you mean '--disk'?" },
        { "--dataset a=/x --reads 129", "reads: expected a number from 1 to 128, got '129'" },
        { "--dataset a=/x --patience 0", "patience: expected a number from 1 to 604800, got '0'" },
        { "--config /nonexistent/tureen.zpl", "/nonexistent/tureen.zpl: cannot be read: No such file" },
        { "--config /tmp", "/tmp: cannot be read: Is a directory" },
    };
    s_all_refused (cases, sizeof cases / sizeof *cases);
    options_t options = s_parsed ("--dataset a=/x --workers 1024");
    assert_int_equal (options.workers, 1024);
    options_clear (&options);
}

static void
settings_of_datasets_refused (void **state)
{
    (void) state;
    static const refused_t cases [] = {
        { "--dataset a=/x --field", "option '--field' needs a value: NAME.FIELD=mask:DIR;" },
        { "--dataset a=/x --field a.m", "field: expected NAME.FIELD=mask:DIR, got 'a.m'" },
        { "--dataset a=/x --field a.m=", "field: expected NAME.FIELD=mask:DIR, got 'a.m='" },
        { "--dataset a=/x --field a=mask:/m", "field: expected NAME.FIELD=mask:DIR, got 'a'" },
        { "--dataset a=/x --field =mask:/m", "field: expected NAME.FIELD=mask:DIR, got '=...'" },
        { "--dataset a=/x --field a.m=/m", "field m: expected image:DIR, mask:DIR or file:DIR, got '/m'" },
        { "--dataset a=/x --field a.m=label:/m",
          "field m: expected image:DIR, mask:DIR or file:DIR, got 'label:/m'" },
        { "--dataset a=/x --field a.m=mask:",
          "field m: expected image:DIR, mask:DIR or file:DIR, got 'mask:'" },
        { "--dataset a=/x --field a.=mask:/m", "letters, digits or '_' and is not 'image', got ''" },
        { "--dataset a=/x --field a.image=mask:/m", "is not 'image', got 'image'" },
        { "--dataset a=/x --field a.m-n=mask:/m", "got 'm-n'" },
        { "--dataset a=/x --field a.m=mask:/m --field a.m=image:/n",
            "field m: data set 'a' has two of that name: /m and /n" },
        { "--dataset a=/x --dataset b=/y --field c.m=mask:/m",
            "field: there is no data set 'c'; there is: a, b" },
        { "--dataset a=/x --on-bad b=fail", "on-bad: there is no data set 'b'; there is: a" },
        { "--dataset a=/x --on-bad a=stop", "on-bad: expected drop or fail, got 'stop'" },
        { "--dataset a=/x --on-bad fail", "on-bad: expected NAME=drop|fail, got 'fail'" },
        { "--dataset a=/x --extensions a=wav", "extensions: expected NAME=.wav,.flac, got 'wav'" },
        { "--dataset a=/x --extensions a=.wav,", "got '.wav,'" },
        { "--dataset a=/x --extensions a=.wav,.", "got '.wav,.'" },
        { "--dataset a=/x --extensions a=.a/b", "got '.a/b'" },
        { "--dataset a=/x --jpeg-warnings a=-1",
            "jpeg-warnings: expected a number from 0 to 999999999, got '-1'" },
        { "--dataset a=/x --jpeg-warnings a=1x", "got '1x'" },
        { "--dataset a=/x --jpeg-warnings a=1000000000", "got '1000000000'" },
        { "--dataset a=/x --tier a=flow", "tier: expected stream, redox or direct, got 'flow'" },
        { "--dataset a=/x --tier stream", "tier: expected NAME=stream|redox|direct, got 'stream'" },
        { "--dataset a=/x --piece a=65", "piece: expected a number from 1 to 64, got '65'" },
        { "--dataset a=/x --piece a=0", "got '0'" },
    };
    s_all_refused (cases, sizeof cases / sizeof *cases);
}

static void
empty_argument (void **state)
{
    (void) state;
    options_t options;
    char error [ERROR_BYTES], *argv [] = { "serve", strdup (""), NULL };
    assert_int_equal (options_parse (&options, 2, argv, error, sizeof error), OPTION_WRONG);
    assert_non_null (strstr (error, "unexpected argument ''"));
    options_clear (&options);
    free (argv [1]);
}

//  An error that does not fit is cut, not spilled.
static void
short_error_buffer (void **state)
{
    (void) state;
    options_t options;
    char *argv [] = { "serve", "--config", "/nonexistent/a/rather/long/path", NULL };
    for (size_t size = 1; size < 80; size++) {
        char *error = malloc (size);
        assert_int_equal (options_parse (&options, 3, argv, error, size), OPTION_WRONG);
        assert_true (strlen (error) < size);
        options_clear (&options);
        free (error);
    }
}

//  --- File -------------------------------------------------------------------------------------------------

static void
everything_from_a_file (void **state)
{
    (void) state;
    options_t options = s_parsed_file (
        "# Tureen\r\n"
        "\n"
        "listen = \"ipc:///run/tureen/server.sock\"   # here\n"
        "dataset\n"
        "    train = /data/image net/train # all\n"
        "        \n"
        "    # a comment\n"
        "    val-2.x = '/data/#1'# x\n"
        "cache=4G\n"
        "workers\t=\t7\n"
        "policy = dsa", "");
    assert_string_equal (options.listen, "ipc:///run/tureen/server.sock");
    assert_int_equal (options.dataset_count, 2);
    assert_string_equal (options.datasets [0].name, "train");
    assert_string_equal (options.datasets [0].path, "/data/image net/train");
    assert_string_equal (options.datasets [1].name, "val-2.x");
    assert_string_equal (options.datasets [1].path, "/data/#1");
    assert_true (options.cache_bytes == UINT64_C (4) << 30);
    assert_int_equal (options.workers, 7);
    options_clear (&options);
}

static void
command_line_wins_and_datasets_add_up (void **state)
{
    (void) state;
    const char *text = "listen = file\ncache = 4G\nworkers = 7\ndataset\n    a = /file\n";
    options_t options = s_parsed_file (text, "--cache 1M --dataset b=/line --listen line");
    assert_string_equal (options.listen, "line");
    assert_int_equal (options.cache_bytes, 1 << 20);
    assert_int_equal (options.workers, 7);
    assert_int_equal (options.dataset_count, 2);
    assert_string_equal (options.datasets [0].path, "/line");
    assert_string_equal (options.datasets [1].path, "/file");
    options_clear (&options);
    char error [ERROR_BYTES];
    assert_int_equal (s_parse_file (&options, text, strlen (text), "--dataset a=/line", error),
        OPTION_WRONG);
    assert_non_null (strstr (error, ":5: dataset a: there are two of that name: /line and /file"));
    options_clear (&options);
    //  What the command line overrides is checked all the same.
    text = "cache = much\n";
    assert_int_equal (s_parse_file (&options, text, strlen (text), "--cache 1M", error), OPTION_WRONG);
    assert_non_null (strstr (error, ":1: cache: expected a size"));
    options_clear (&options);
}

//  Data sets and fields add up; for the rest the command line wins, and the file's is checked all the same.
static void
settings_of_datasets_from_a_file (void **state)
{
    (void) state;
    const char *text = "on-bad\n    b = fail\n    a = fail\n"
        "field\n    a.mask = mask:/m # x\n    a.more = \"image:/i\"\n"
        "dataset\n    a = /a\n"
        "extensions\n    a = .wav\n"
        "jpeg-warnings\n    a = 7\n";
    options_t options = s_parsed_file (text,
        "--dataset b=/b --on-bad a=drop --jpeg-warnings a=2 --field a.first=mask:/f");
    const options_dataset_t *dataset = &options.datasets [1];
    assert_string_equal (dataset->name, "a");
    assert_int_equal (dataset->field_count, 3);
    assert_string_equal (dataset->fields [0].name, "first");
    assert_string_equal (dataset->fields [1].path, "/m");
    assert_string_equal (dataset->fields [2].path, "/i");
    assert_string_equal (dataset->extensions, ".wav");
    assert_false (dataset->bad_is_fatal);
    assert_int_equal (dataset->jpeg_warnings_max, 2);
    assert_true (options.datasets [0].bad_is_fatal);
    options_clear (&options);
    char error [ERROR_BYTES];
    text = "dataset\n    a = /a\non-bad\n    a = ignore\n";
    assert_int_equal (s_parse_file (&options, text, strlen (text), "--on-bad a=drop", error), OPTION_WRONG);
    assert_non_null (strstr (error, ":4: on-bad: expected drop or fail, got 'ignore'"));
    options_clear (&options);
}

//  The file takes the names that the command line takes.
static void
longest_names_in_a_file (void **state)
{
    (void) state;
    char name [65], field [64], text [512];
    memset (name, 'n', sizeof name);
    memset (field, 'f', sizeof field);
    name [64] = field [63] = 0;
    snprintf (text, sizeof text, "dataset\n    %s = /d\nfield\n    %s.%s = mask:/m\n", name, name, field);
    options_t options = s_parsed_file (text, "");
    assert_string_equal (options.datasets [0].name, name);
    assert_string_equal (options.datasets [0].fields [0].name, field);
    options_clear (&options);
    snprintf (text, sizeof text, "dataset\n    %s = /d\nfield\n    %s.%sf = mask:/m\n", name, name, field);
    s_refused_file (text, 4, "expected a name, got");
    snprintf (text, sizeof text, "dataset\n    n%s = /d\n", name);
    s_refused_file (text, 2, "a name has 1 to 64");
}

static void
files_refused (void **state)
{
    (void) state;
    static const struct { const char *text; size_t line; const char *fragment; } cases [] = {
        { "\n# x\nchace = 4G\n", 3, "unknown setting 'chace'; did you mean 'cache'?" },
        { "dataset\n    a = /x\n\nfoobar = 1\n", 4, "unknown setting 'foobar'; there are dataset, listen" },
        { "config = x\n", 1, "unknown setting 'config'" },
        { "dataset = /x\n", 1, "expected no value here, but lines" },
        { "dataset\ncache = 1M\n", 1, "expected lines '    NAME = PATH' below it" },
        { "dataset\n    a\n", 2, "dataset a: the path is missing" },
        { "dataset\n    a = /x\n    a = /y\n", 3, "there are two of that name: /x and /y" },
        { "dataset\n    a = /x\ndataset\n    a = /y\n", 4, "there are two of that name" },
        { "dataset\n    a@b = /x\n", 2, "a name has 1 to 64" },
        { "dataset\n    a = /x\n        b = /y\n", 3, "indent by 4 blanks" },
        { "on-bad = fail\n", 1, "on-bad: expected no value here, but lines '    NAME = drop|fail' below it" },
        { "field\n", 1, "field: expected lines '    NAME.FIELD = mask:DIR' below it" },
        { "on-bad\n    a = fail\ndataset\n    b = /x\n", 2, "on-bad: there is no data set 'a'; there is: b" },
        { "dataset\n    b = /x\nfield\n    b.m = mask:/m\n    b.m = mask:/n\n", 5,
            "has two of that name: /m and /n" },
        { "dataset\n    b = /x\non-bad\n    b = drop\n\n    b = fail\n", 6,
            "on-bad b: it is there twice, now as 'fail'" },
        { "dataset\n    b = /x\njpeg-warnings\n    b = many\n", 4, "jpeg-warnings: expected a number" },
        { "dataset\n    b = /x\nextensions\n    b\n", 4, "extensions: expected NAME=.wav,.flac, got 'b='" },
        { "dataset\n    b = /x\nextensions\n    b = .wa v\n", 4,
            "extensions: expected NAME=.wav,.flac, got '.wa v'" },
        { "cache = 1M\n    a = /x\n", 1, "cache: nothing belongs below it" },
        { "cache = 1M\ncache = 2M\n", 2, "cache: it is there twice, now as '2M'" },
        { "workers = 0\n", 1, "workers: expected a number from 1 to 1024, got '0'" },
        { "policy = resident\n", 1, "policy: expected follow or dsa, got 'resident'" },
        { "cache\n", 1, "cache: the value is missing" },
        { "cache = \"\"\n", 1, "cache: the value is missing" },
        { "cache =\n", 1, "the value after '=' is missing" },
        { "listen = # x\n", 1, "the value after '=' is missing" },
        { "  cache = 4G\n", 1, "indent by 4 blanks" },
        { "    cache = 4G\n", 1, "indent by 4 blanks" },
        { "dataset\n\ta = /x\n", 2, "expected a name, got '\\x09a = /x'" },
        { "dataset\n  # x\n", 2, "indent a comment by 4 blanks or not at all" },
        { "cache: 4G\n", 1, "expected '=' and a value, got ': 4G'" },
        { "cache 4G\n", 1, "expected '=' and a value, got '4G'" },
        { "= 4G\n", 1, "expected a name, got '= 4G'" },
        { "/cache = 4G\n", 1, "expected a name" },
        { "cache/ = 4G\n", 1, "expected a name" },
        { "\xc3\xa4 = 4G\n", 1, "expected a name, got '\xc3\xa4 = 4G'" },
        { "listen = \"x\n", 1, "the quotation mark \" is not closed" },
        { "listen = 'x\n", 1, "the quotation mark ' is not closed" },
        { "dataset\n    a = /x/a#b\n", 2, "'#' begins a comment, and the value would be '/x/a': write it in "
            "quotation marks" },
        { "dataset\n    a = /x/a#b # c\n", 2, "the value would be '/x/a'" },
        { "cache = 4G# all\n", 1, "the value would be '4G'" },
        { "listen = \"x\" y\n", 1, "'y' after the quotation" },
        { "listen = \v\"x\n", 1, "a control character, 11" },
        { "listen = a\rb\n", 1, "a control character, 13" },
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        s_refused_file (cases [index].text, cases [index].line, cases [index].fragment);
    options_t options;
    char error [ERROR_BYTES];
    assert_int_equal (s_parse_file (&options, "cache = 1M\n\0listen = x\n", 23, "", error), OPTION_WRONG);
    assert_non_null (strstr (error, "holds a zero byte"));
    options_clear (&options);
    assert_int_equal (s_parse_file (&options, "", 0, "", error), OPTION_WRONG);
    assert_non_null (strstr (error, "no data set"));
    options_clear (&options);
}

static void
files_too_large (void **state)
{
    (void) state;
    char *text = malloc (70000);
    assert_non_null (text);
    memset (text, 'x', 70000);
    text [1500] = 0;
    s_refused_file (text, 1, "the line has more than 1000 bytes");
    memset (text, '\n', 65537);
    text [65537] = 0;
    s_refused_file (text, 0, "has more than 65536 bytes");
    memcpy (text, "dataset\n    a = /x", 18);
    text [65536] = 0;
    options_t options = s_parsed_file (text, "");
    assert_int_equal (options.dataset_count, 1);
    options_clear (&options);
    //  As many lines as fit: czmq ends its items by recursion.
    for (size_t at = 0; at < 65536; at += 4)
        memcpy (text + at, "a=1\n", 4);
    s_refused_file (text, 1, "unknown setting 'a'");
    free (text);
}

//  Property: whatever is made of a good file by random changes, nothing crashes, czmq says nothing on
//  standard output (so that our own check let through no line that it refuses), and every error has a reason.
static void
damaged_files (void **state)
{
    (void) state;
    static const char good [] = "# x\nlisten = \"ipc:///x\"\ndataset\n"
        "    train = /data # y\n    val = '/v'\ncache = 4G\n";
    static const char likely [] = " \t\n\r\v#='\"/.ax1\x1f\x80\xff";
    size_t taken = 0;
    for (uint64_t seed = test_seed (), round = 0; round < 3000; seed++, round++) {
        uint64_t random = seed;
        char text [sizeof good], error [ERROR_BYTES];
        memcpy (text, good, sizeof good);
        for (uint64_t hits = 1 + test_below (&random, 4); hits; hits--)
            text [test_below (&random, sizeof good - 1)] = likely [test_below (&random, sizeof likely - 1)];
        options_t options;
        option_status_t status = s_parse_file (&options, text, sizeof good - 1, "", error);
        if (strstr (error, "is no ZPL"))
            fail_msg ("seed %" PRIu64 ": our check let through:\n%s", seed, text);
        assert_true (status == OPTION_RUN? !*error: *error != 0);
        taken += status == OPTION_RUN;
        options_clear (&options);
    }
    assert_true (taken > 50);
}

//  czmq takes over SIGINT and SIGTERM once it is initialised; reading settings must not do that.
static void
signals_are_left_alone (void **state)
{
    (void) state;
    options_t options = s_parsed_file ("dataset\n    a = /x\n", "");
    options_clear (&options);
    s_refused_file ("  bad", 1, "indent");
    static const int signals [] = { SIGINT, SIGTERM };
    for (size_t index = 0; index < 2; index++) {
        struct sigaction action;
        assert_int_equal (sigaction (signals [index], NULL, &action), 0);
        assert_true (action.sa_handler == SIG_DFL);
    }
}

static int
s_set_up (void **state)
{
    (void) state;
    int descriptor = mkstemp (s_config_path);
    return descriptor >= 0 && close (descriptor) == 0? 0: -1;
}

static int
s_tear_down (void **state)
{
    (void) state;
    return unlink (s_config_path);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (sizes),
        cmocka_unit_test (both_ways_to_write_an_option),
        cmocka_unit_test (defaults),
        cmocka_unit_test (many_datasets),
        cmocka_unit_test (settings_of_datasets),
        cmocka_unit_test (the_cache_on_the_local_disk),
        cmocka_unit_test (many_fields),
        cmocka_unit_test (help_comes_first),
        cmocka_unit_test (arguments_refused),
        cmocka_unit_test (settings_of_datasets_refused),
        cmocka_unit_test (empty_argument),
        cmocka_unit_test (short_error_buffer),
        cmocka_unit_test (everything_from_a_file),
        cmocka_unit_test (command_line_wins_and_datasets_add_up),
        cmocka_unit_test (settings_of_datasets_from_a_file),
        cmocka_unit_test (longest_names_in_a_file),
        cmocka_unit_test (files_refused),
        cmocka_unit_test (files_too_large),
        cmocka_unit_test (damaged_files),
        cmocka_unit_test (signals_are_left_alone),
        cmocka_unit_test (memory),
        cmocka_unit_test (until_idle),
        cmocka_unit_test (supervise),
    };
    return cmocka_run_group_tests (tests, s_set_up, s_tear_down);
}

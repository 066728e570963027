#include "account.h"
#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <curl/curl.h>
#include <sodium.h>
#include "wiped.h"

//  ---- keys

//  Characters that can stand in a header's value, and no blank.
static bool
s_is_good_text (const char *text, size_t length_max)
{
    size_t length = strlen (text);
    for (size_t index = 0; index < length; index++)
        if (text [index] <= ' ' || text [index] > '~')
            return false;
    return length > 0 && length <= length_max;
}

int
account_key_new (account_key_t **self_p, const char *name, const char *secret, const char *token,
    int64_t ends_s)
{
    assert (self_p); assert (name); assert (secret);
    *self_p = NULL;
    if (token && !*token)
        token = NULL;
    //  "Credential=NAME/DAY/.."
    if (!s_is_good_text (name, ACCOUNT_KEY_NAME_MAX) || strchr (name, '/')
    ||  !s_is_good_text (secret, ACCOUNT_KEY_SECRET_MAX)
    ||  (token && !s_is_good_text (token, ACCOUNT_KEY_TOKEN_MAX)))
        return -EBADMSG;
    account_key_t *self = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    atomic_init (&self->holders, 1);
    self->name = strdup (name);
    self->secret = wiped_guarded_text ("AWS4", secret);
    self->token = token? wiped_guarded_text ("", token): NULL;
    self->ends_s = ends_s;
    if (!self->name || !self->secret || (token && !self->token))
        account_key_release (&self);
    *self_p = self;
    return self? 0: -ENOMEM;
}

account_key_t *
account_key_hold (account_key_t *self)
{
    assert (self && self->holders > 0);
    self->holders++;
    return self;
}

void
account_key_release (account_key_t **self_p)
{
    assert (self_p);
    account_key_t *self = *self_p;
    *self_p = NULL;
    if (!self || --self->holders > 0)
        return;
    free (self->name);
    wiped_guarded_free (self->secret);
    wiped_guarded_free (self->token);
    free (self);
}

static bool
s_is_same (const char *left, const char *right)
{
    size_t length = left && right? strlen (left): 0;
    return left && right? length == strlen (right) && sodium_memcmp (left, right, length) == 0: left == right;
}

bool
account_key_equals (const account_key_t *self, const account_key_t *other)
{
    return s_is_same (self->name, other->name) && s_is_same (self->secret, other->secret)
        && s_is_same (self->token, other->token) && self->ends_s == other->ends_s;
}


//  ---- signatures

enum {
    HASH_BYTES = crypto_hash_sha256_BYTES, DAY_BYTES = 8,
    REQUEST_BYTES = 16 * 1024           //  keys of objects have 1 KiB, tokens some KiB at most
};

_Static_assert ((int) HASH_BYTES == (int) crypto_auth_hmacsha256_BYTES, "a hash is the key of the next");

//  A text that is put together; is_whole: it all had room.
typedef struct {
    char *text;
    size_t room, used;
    bool is_whole;
} draft_text_t;

__attribute__ ((format (printf, 2, 3)))
static void
s_add (draft_text_t *self, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    int length = vsnprintf (self->text + self->used, self->room - self->used, format, arguments);
    va_end (arguments);
    self->is_whole = self->is_whole && length >= 0 && (size_t) length < self->room - self->used;
    if (self->is_whole)
        self->used += (size_t) length;
}

static void
s_keyed_hash (uint8_t target [HASH_BYTES], const void *key, size_t key_bytes, const char *text)
{
    crypto_auth_hmacsha256_state state;
    crypto_auth_hmacsha256_init (&state, key, key_bytes);
    crypto_auth_hmacsha256_update (&state, (const uint8_t *) text, strlen (text));
    crypto_auth_hmacsha256_final (&state, target);
    sodium_memzero (&state, sizeof state);
}

//  "Signing key" in Amazon's words: of one day, region and service.  It begins with the secret, so all of it
//  is wiped.
static void
s_sign (const account_key_t *key, const char *region, const char *day, const char *text,
    char hex [2 * HASH_BYTES + 1])
{
    struct { crypto_auth_hmacsha256_state state; uint8_t key [HASH_BYTES]; } hidden;
    crypto_auth_hmacsha256_init (&hidden.state, (const uint8_t *) key->secret, strlen (key->secret));
    crypto_auth_hmacsha256_update (&hidden.state, (const uint8_t *) day, DAY_BYTES);
    crypto_auth_hmacsha256_final (&hidden.state, hidden.key);
    s_keyed_hash (hidden.key, hidden.key, HASH_BYTES, region);
    s_keyed_hash (hidden.key, hidden.key, HASH_BYTES, "s3");
    s_keyed_hash (hidden.key, hidden.key, HASH_BYTES, "aws4_request");
    s_keyed_hash (hidden.key, hidden.key, HASH_BYTES, text);
    sodium_bin2hex (hex, 2 * HASH_BYTES + 1, hidden.key, HASH_BYTES);
    sodium_memzero (&hidden, sizeof hidden);
}

//  "Canonical request": the request in the one form that both sides hash.
static void
s_canonical (draft_text_t *text, const account_key_t *key, const account_request_t *request,
    const char *date, const char *names)
{
    const char *host = strstr (request->url, "://") + 3;
    size_t host_bytes = strcspn (host, "/?"), path_bytes = strcspn (host + host_bytes, "?");
    const char *path = host + host_bytes, *query = path + path_bytes;
    s_add (text, "%s\n%.*s%s\n%s\n", request->method, (int) path_bytes, path, path_bytes? "": "/",
        *query? query + 1: "");
    s_add (text, "host:%.*s\n", (int) host_bytes, host);
    if (request->range)
        s_add (text, "range:%s\n", request->range);
    s_add (text, "x-amz-content-sha256:%s\nx-amz-date:%s\n", request->payload, date);
    if (key->token)
        s_add (text, "x-amz-security-token:%s\n", key->token);
    s_add (text, "\n%s\n%s", names, request->payload);
}

bool
account_key_sign (const account_key_t *key, const char *region, const account_request_t *request,
    char date [ACCOUNT_DATE_BYTES], char authorization [ACCOUNT_SIGNATURE_BYTES])
{
    assert (key && region); assert (request && strstr (request->url, "://"));
    struct tm moment;
    if (!gmtime_r (&request->time, &moment)
    ||  strftime (date, ACCOUNT_DATE_BYTES, "%Y%m%dT%H%M%SZ", &moment) == 0)
        return false;
    char names [100], canonical [REQUEST_BYTES], scope [160], text [400], hex [2 * HASH_BYTES + 1];
    uint8_t hash [HASH_BYTES];
    snprintf (names, sizeof names, "host%s;x-amz-content-sha256;x-amz-date%s", request->range? ";range": "",
        key->token? ";x-amz-security-token": "");
    draft_text_t draft = { .text = canonical, .room = sizeof canonical, .is_whole = true };
    s_canonical (&draft, key, request, date, names);
    crypto_hash_sha256 (hash, (const uint8_t *) canonical, draft.used);
    sodium_bin2hex (hex, sizeof hex, hash, sizeof hash);
    sodium_memzero (canonical, sizeof canonical);       //  it can hold a token
    draft_text_t area = { .text = scope, .room = sizeof scope, .is_whole = draft.is_whole };
    s_add (&area, "%.*s/%s/s3/aws4_request", DAY_BYTES, date, region);
    draft_text_t signed_text = { .text = text, .room = sizeof text, .is_whole = area.is_whole };
    s_add (&signed_text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", date, scope, hex);
    s_sign (key, region, date, text, hex);
    draft_text_t line = { .text = authorization, .room = ACCOUNT_SIGNATURE_BYTES,
        .is_whole = signed_text.is_whole };
    s_add (&line, "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%s", key->name, scope,
        names, hex);
    return line.is_whole;
}


//  ---- a profile in its two files

//  What AWS's two files, credentials and config, say of one profile.
//  NULL: it is not set.  Begins as all zero.
typedef struct {
    bool is_there;                          //  the file has a section of the profile
    char *key, *secret, *token;             //  secret and token: wiped when they are cleared
    char *region, *endpoint;
    char *role, *session, *token_file;      //  of a web identity
    char *program;                          //  credential_process: a command; wiped, as it may say a secret
    //  other ways to keys, which Tureen does not go
    bool has_source;                        //  source_profile or credential_source
    bool has_sso;
} profile_t;

enum {
    LINE_BYTES = 16 * 1024              //  no token is longer, so that getline moves no line
};

//  Without white space at its ends; changes the text.
static char *
s_trimmed (char *text)
{
    text += strspn (text, " \t\r\n");
    size_t length = strlen (text);
    while (length > 0 && isspace ((unsigned char) text [length - 1]))
        text [--length] = 0;
    return text;
}

//  "[name]", or "[profile name]" in the config file.
static bool
s_is_section (char *line, const char *profile, bool is_config)
{
    char *end = strchr (line, ']');
    if (!end)
        return false;
    *end = 0;
    char *name = s_trimmed (line + 1);
    if (is_config && strncmp (name, "profile", 7) == 0 && isspace ((unsigned char) name [7]))
        name = s_trimmed (name + 7);
    else
    if (is_config && strcmp (name, "default") != 0)
        return false;
    return strcmp (name, profile) == 0;
}

static void
s_take_other (profile_t *self, const char *name)
{
    if (strcmp (name, "source_profile") == 0 || strcmp (name, "credential_source") == 0)
        self->has_source = true;
    else
    if (strcmp (name, "sso_session") == 0 || strcmp (name, "sso_start_url") == 0)
        self->has_sso = true;
}

//  "name = value".  False: no memory.
static bool
s_take_line (profile_t *self, char *line)
{
    char *equals = strchr (line, '=');
    if (!equals)
        return true;
    *equals = 0;
    const char *name = s_trimmed (line), *value = s_trimmed (equals + 1);
    const struct { const char *name; char **place; } settings [] = {
        { "aws_access_key_id", &self->key }, { "aws_secret_access_key", &self->secret },
        { "aws_session_token", &self->token }, { "region", &self->region },
        { "endpoint_url", &self->endpoint }, { "role_arn", &self->role },
        { "role_session_name", &self->session }, { "web_identity_token_file", &self->token_file },
        { "credential_process", &self->program } };
    if (!*value)
        return true;
    s_take_other (self, name);
    for (size_t index = 0; index < sizeof settings / sizeof *settings; index++)
        if (strcmp (name, settings [index].name) == 0) {
            wiped_free (*settings [index].place);
            *settings [index].place = wiped_strdup (value);
            return *settings [index].place;
        }
    return true;
}

//  False: no memory.
static bool
s_take_profile (profile_t *self, FILE *file, const char *name, bool is_config)
{
    size_t room = LINE_BYTES;
    char *line = malloc (room);
    bool is_inside = false, has_memory = line;
    while (has_memory && getline (&line, &room, file) >= 0)
        if (line [0] == '[') {
            is_inside = s_is_section (line, name, is_config);
            self->is_there = self->is_there || is_inside;
        }
        else                            //  an indented line belongs to the setting before it
        if (is_inside && !isspace ((unsigned char) line [0]) && line [0] != '#' && line [0] != ';')
            has_memory = s_take_line (self, line);
    wiped_free (line);
    return has_memory;
}

//  Adds what the file says of the profile called name; a file that is not there says nothing.  is_config:
//  sections are called "profile NAME".  0; or -errno: the file cannot be read, and error (always ended) says
//  why; or -ENOMEM, and error is as it was.
static int
s_profile_read (profile_t *self, const char *path, const char *name, bool is_config, char *error,
    size_t error_bytes)
{
    assert (self); assert (path); assert (name);
    FILE *file = fopen (path, "re");
    if (!file && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    int rc = file? 0: -errno;
    if (file) {
        char buffer [4096];             //  in place of one that is freed without being wiped
        setvbuf (file, buffer, _IOFBF, sizeof buffer);
        errno = 0;
        bool has_memory = s_take_profile (self, file, name, is_config);
        rc = !has_memory? -ENOMEM: ferror (file)? (errno? -errno: -EIO): 0;
        fclose (file);
        sodium_memzero (buffer, sizeof buffer);
    }
    if (rc && rc != -ENOMEM)
        snprintf (error, error_bytes, "cannot read '%.400s' (%s): let this user read it", path,
            strerror (-rc));
    return rc;
}

static void
s_profile_clear (profile_t *self)
{
    char *all [] = { self->key, self->secret, self->token, self->region, self->endpoint, self->role,
        self->session, self->token_file, self->program };
    for (size_t index = 0; index < sizeof all / sizeof *all; index++)
        wiped_free (all [index]);
    *self = (profile_t) { .key = NULL };
}


//  ---- account

#define CONTAINER_HOST "http://169.254.170.2"
#define INSTANCE_HOST "http://169.254.169.254"
#define INSTANCE_HOST_IPV6 "http://[fd00:ec2::254]"

//  What is looked through; the two files are credentials and config.
typedef struct {
    const char *profile;
    bool is_profile_named;              //  by AWS_PROFILE
    char rooms [2] [PATH_MAX];
    const char *paths [2];
    profile_t files [2];
    char *error;
    size_t error_bytes;
} search_t;

static const char *
s_environment (const char *name)
{
    const char *value = getenv (name);
    return value && *value? value: NULL;
}

static bool
s_is_set_to (const char *name, const char *word)
{
    const char *value = s_environment (name);
    return value && strcasecmp (value, word) == 0;
}

__attribute__ ((format (printf, 3, 4)))
static int
s_fail (const search_t *search, int rc, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (search->error, search->error_bytes, format, arguments);
    va_end (arguments);
    return rc;
}

//  A copy of the text; NULL: none.  False: no memory.
static bool
s_copy (char **place, const char *text)
{
    *place = text? strdup (text): NULL;
    return *place || !text;
}

//  The files' settings in the order of AWS's tools: what the credentials file says counts first.
static const char *
s_setting (const search_t *search, size_t offset)
{
    for (size_t index = 0; index < 2; index++) {
        const char *value = *(char *const *) ((const char *) &search->files [index] + offset);
        if (value)
            return value;
    }
    return NULL;
}
#define SETTING(search, name) s_setting (search, offsetof (profile_t, name))


//  -- endpoints

static bool
s_is_endpoint (const char *text)
{
    size_t scheme = strncmp (text, "https://", 8) == 0? 8: strncmp (text, "http://", 7) == 0? 7: 0;
    return scheme && text [scheme] && !strpbrk (text + scheme, "@?# \t") && !strchr (text + scheme, '/');
}

//  Takes one, without the slash at its end; names: the settings that it may come from.
static int
s_take_endpoint (const search_t *search, char **place, const char *given, const char *names)
{
    size_t length = strlen (given);
    *place = strndup (given, length - (given [length - 1] == '/'));
    if (!*place)
        return -ENOMEM;
    return s_is_endpoint (*place)? 0: s_fail (search, -EINVAL, "'%.200s' is no endpoint (%s): write it as "
        "https://HOST:PORT", strchr (given, '@')? "...": given, names);
}

//  Over http only this machine and the addresses that AWS gives to such services, as its tools demand: the
//  answer is a secret.  1 yes, 0 no, -ENOMEM.
static int
s_may_be_asked (const char *text)
{
    char *scheme = NULL, *host = NULL, *user = NULL;
    CURLU *url = curl_url ();
    if (!url)
        return -ENOMEM;
    CURLUcode parsed = curl_url_set (url, CURLUPART_URL, text, 0);
    parsed = parsed? parsed: curl_url_get (url, CURLUPART_SCHEME, &scheme, 0);
    parsed = parsed? parsed: curl_url_get (url, CURLUPART_HOST, &host, 0);
    bool is_url = parsed == CURLUE_OK && curl_url_get (url, CURLUPART_USER, &user, 0) == CURLUE_NO_USER;
    static const char *const known [] = { "localhost", "[::1]", "169.254.170.2", "169.254.170.23",
        "[fd00:ec2::23]" };
    struct in_addr address;
    bool may = is_url && strcmp (scheme, "https") == 0;
    if (is_url && strcmp (scheme, "http") == 0) {
        may = inet_pton (AF_INET, host, &address) == 1 && ntohl (address.s_addr) >> 24 == 127;
        for (size_t index = 0; index < sizeof known / sizeof *known; index++)
            may = may || strcasecmp (host, known [index]) == 0;
    }
    curl_free (scheme);
    curl_free (host);
    curl_free (user);
    curl_url_cleanup (url);
    return parsed == CURLUE_OUT_OF_MEMORY? -ENOMEM: may;
}


//  -- keys that are there

static int
s_take_keys (account_t *self, const search_t *search, account_source_t source, const char *where,
    const profile_t *keys)
{
    self->source = source;
    int rc = account_key_new (&self->key, keys->key, keys->secret, keys->token, 0);
    return rc != -EBADMSG? rc: s_fail (search, -EINVAL, "the keys in %s are longer than keys are, or have "
        "blanks or control characters in them: copy them again", where);
}

static int
s_take_environment (account_t *self, const search_t *search)
{
    profile_t keys = { .key = getenv ("AWS_ACCESS_KEY_ID"), .secret = getenv ("AWS_SECRET_ACCESS_KEY"),
        .token = getenv ("AWS_SESSION_TOKEN") };
    wiped_keep_from_core (keys.secret);
    if (keys.token)
        wiped_keep_from_core (keys.token);
    return s_take_keys (self, search, ACCOUNT_ENVIRONMENT, "the environment", &keys);
}

//  1: the file has no keys of the profile.
static int
s_take_file (account_t *self, const search_t *search, size_t index)
{
    const profile_t *file = &search->files [index];
    if (!file->key && !file->secret)
        return 1;
    if (!file->key || !file->secret)
        return s_fail (search, -EINVAL, "profile '%.80s' in '%.400s' has no %s: add it", search->profile,
            search->paths [index], file->key? "aws_secret_access_key": "aws_access_key_id");
    self->is_config = index == 1;
    if (!s_copy (&self->profile, search->profile) || !s_copy (&self->file, search->paths [index]))
        return -ENOMEM;
    return s_take_keys (self, search, ACCOUNT_PROFILE, search->paths [index], file);
}

//  1: the profile names no program.
static int
s_take_program (account_t *self, const search_t *search)
{
    const char *program = SETTING (search, program);
    if (!program)
        return 1;
    self->source = ACCOUNT_PROGRAM;
    self->program = wiped_guarded_text ("", program);
    return self->program && s_copy (&self->profile, search->profile)? 0: -ENOMEM;
}


//  -- keys that a service gives

static int
s_take_web_identity (account_t *self, const search_t *search, const char *token_file)
{
    const char *role = s_environment ("AWS_ROLE_ARN"), *session = s_environment ("AWS_ROLE_SESSION_NAME");
    role = role? role: SETTING (search, role);
    session = session? session: SETTING (search, session);
    if (!role)
        return s_fail (search, -EINVAL, "there is a web identity ('%.400s'), and no role for it: set "
            "AWS_ROLE_ARN, or role_arn in profile '%.80s'", token_file, search->profile);
    self->source = ACCOUNT_WEB_IDENTITY;
    if (!s_copy (&self->token_file, token_file) || !s_copy (&self->role, role)
    ||  !s_copy (&self->session, session? session: "tureen"))
        return -ENOMEM;
    const char *given = s_environment ("AWS_ENDPOINT_URL_STS");
    given = given? given: s_environment ("AWS_ENDPOINT_URL");
    given = given? given: SETTING (search, endpoint);
    char own [160];
    snprintf (own, sizeof own, "https://sts.%.80s.%s", self->region, account_domain (self->region));
    return s_take_endpoint (search, &self->service, given? given: own,
        "AWS_ENDPOINT_URL_STS, AWS_ENDPOINT_URL, endpoint_url");
}

static int
s_take_container (account_t *self, const search_t *search, const char *relative, const char *full)
{
    self->source = ACCOUNT_CONTAINER;
    if (relative && relative [0] != '/')
        return s_fail (search, -EINVAL, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is '%.100s': it begins with "
            "a slash", relative);
    if (relative) {
        size_t bytes = strlen (CONTAINER_HOST) + strlen (relative) + 1;
        self->service = malloc (bytes);
        if (self->service)
            snprintf (self->service, bytes, "%s%s", CONTAINER_HOST, relative);
    }
    else
        self->service = strdup (full);
    int may = self->service? s_may_be_asked (self->service): -ENOMEM;
    if (may < 0)
        return may;
    if (may == 0)
        return s_fail (search, -EINVAL, "AWS_CONTAINER_CREDENTIALS_FULL_URI is an address that no keys are "
            "taken from: it begins with https://, or is http:// on this machine (127.0.0.1, localhost), "
            "169.254.170.2, 169.254.170.23 or [fd00:ec2::23]");
    const char *file = s_environment ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *token = s_environment ("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    if (file)
        return s_copy (&self->token_file, file)? 0: -ENOMEM;
    if (token) {
        wiped_keep_from_core (token);
        self->authorization = wiped_guarded_text ("", token);
        return self->authorization? 0: -ENOMEM;
    }
    return 0;
}

#define NO_KEYS_REMEDY "Set keys, or AWS_NO_SIGN_REQUEST=YES for data that anyone may read"

static int
s_take_instance (account_t *self, const search_t *search)
{
    char where [700];                   //  where there were no keys, for people
    snprintf (where, sizeof where, "no keys for the object store: AWS_ACCESS_KEY_ID, "
        "AWS_WEB_IDENTITY_TOKEN_FILE and AWS_CONTAINER_CREDENTIALS_FULL_URI are not set, and there are no "
        "keys for profile '%.80s' in '%.200s' and '%.200s'", search->profile, search->paths [0],
        search->paths [1]);
    self->source = ACCOUNT_INSTANCE;
    if (s_is_set_to ("AWS_EC2_METADATA_DISABLED", "true"))
        return s_fail (search, -ENOKEY, "%s; an instance's role is not looked for "
            "(AWS_EC2_METADATA_DISABLED). " NO_KEYS_REMEDY, where);
    const char *given = s_environment ("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    bool is_ipv6 = s_is_set_to ("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "ipv6");
    if (!s_copy (&self->looked_at, where))
        return -ENOMEM;
    return s_take_endpoint (search, &self->service, given? given: is_ipv6? INSTANCE_HOST_IPV6: INSTANCE_HOST,
        "AWS_EC2_METADATA_SERVICE_ENDPOINT");
}


//  -- the order

//  1: the profile goes no such way.
static int
s_refuse (const search_t *search, bool goes, const char *way)
{
    return !goes? 1: s_fail (search, -EINVAL, "profile '%.80s' gets its keys by %s, which Tureen does not "
        "do: name another profile (AWS_PROFILE), with the line `credential_process = aws configure "
        "export-credentials --profile %.80s --format process` in '%.200s'", search->profile, way,
        search->profile, search->paths [1]);
}

//  What stands between keys in the environment and those of the profile.  1: there is none.
static int
s_choose_identity (account_t *self, const search_t *search)
{
    const profile_t *files = search->files;
    const char *profile_file = SETTING (search, token_file);
    bool has_source = files [0].has_source || files [1].has_source;
    int rc = s_refuse (search, SETTING (search, role) && has_source && !profile_file,
        "another one's role (source_profile, credential_source)");
    if (rc <= 0)
        return rc;
    const char *token_file = s_environment ("AWS_WEB_IDENTITY_TOKEN_FILE");
    token_file = token_file? token_file: profile_file;
    if (token_file)
        return s_take_web_identity (self, search, token_file);
    return s_refuse (search, files [0].has_sso || files [1].has_sso, "single sign-on (sso_session)");
}

static int
s_choose_keys (account_t *self, const search_t *search)
{
    const char *key = s_environment ("AWS_ACCESS_KEY_ID"), *secret = s_environment ("AWS_SECRET_ACCESS_KEY");
    const char *relative = s_environment ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = s_environment ("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const profile_t *files = search->files;
    if (s_is_set_to ("AWS_NO_SIGN_REQUEST", "yes"))
        return 0;                       //  as account_find began: ACCOUNT_UNSIGNED
    if (key && secret)
        return s_take_environment (self, search);
    if (key || secret)
        return s_fail (search, -EINVAL, "%s is set, and %s is not: set both", key? "AWS_ACCESS_KEY_ID":
            "AWS_SECRET_ACCESS_KEY", key? "AWS_SECRET_ACCESS_KEY": "AWS_ACCESS_KEY_ID");
    int rc = s_choose_identity (self, search);
    if (rc > 0)
        rc = s_take_file (self, search, 0);
    if (rc > 0)
        rc = s_take_program (self, search);
    if (rc > 0)
        rc = s_take_file (self, search, 1);
    if (rc <= 0)
        return rc;
    //  A name that was mistyped must not give the machine's rights in its place.
    if (search->is_profile_named && !files [0].is_there && !files [1].is_there)
        return s_fail (search, -ENOKEY, "there is no profile '%.80s' in '%.200s' and '%.200s': correct "
            "AWS_PROFILE, or unset it", search->profile, search->paths [0], search->paths [1]);
    return relative || full? s_take_container (self, search, relative, full): s_take_instance (self, search);
}

static int
s_choose (account_t *self, const search_t *search)
{
    const char *region = s_environment ("AWS_REGION"), *endpoint = s_environment ("AWS_ENDPOINT_URL_S3");
    region = region? region: s_environment ("AWS_DEFAULT_REGION");
    region = region? region: SETTING (search, region);
    endpoint = endpoint? endpoint: s_environment ("AWS_ENDPOINT_URL");
    endpoint = endpoint? endpoint: SETTING (search, endpoint);
    if (!s_copy (&self->region, region? region: "us-east-1"))
        return -ENOMEM;
    int rc = endpoint? s_take_endpoint (search, &self->endpoint, endpoint, "AWS_ENDPOINT_URL_S3, "
        "AWS_ENDPOINT_URL, endpoint_url"): 0;
    return rc? rc: s_choose_keys (self, search);
}


//  -- the account

//  Where the file is, into path: the environment's, or below the home folder.  False: nowhere.
static bool
s_find_file (const char *variable, const char *below_home, char path [PATH_MAX])
{
    const char *given = s_environment (variable), *home = s_environment ("HOME");
    if (given && given [0] != '~')
        home = NULL;
    else
    if (!home)
        return false;
    int length = snprintf (path, PATH_MAX, "%s%s", home? home: "", given? given + (given [0] == '~'):
        below_home);
    return length < PATH_MAX;
}

static int
s_read_files (search_t *search)
{
    static const struct { const char *variable, *below_home; } places [2] = {
        { "AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials" }, { "AWS_CONFIG_FILE", "/.aws/config" } };
    int rc = 0;
    for (size_t index = 0; rc == 0 && index < 2; index++) {
        bool is_there = s_find_file (places [index].variable, places [index].below_home,
            search->rooms [index]);
        search->paths [index] = is_there? search->rooms [index]: places [index].variable;
        if (is_there)
            rc = s_profile_read (&search->files [index], search->paths [index], search->profile, index == 1,
                search->error, search->error_bytes);
    }
    return rc;
}

static void
s_say_memory (int rc, char *error, size_t error_bytes)
{
    if (rc && !error [0])
        snprintf (error, error_bytes, "not enough memory: free memory");
}

int
account_find (account_t *self, char *error, size_t error_bytes)
{
    assert (self); assert (error && error_bytes > 0);
    *self = (account_t) { .source = ACCOUNT_UNSIGNED };
    error [0] = 0;
    const char *profile = s_environment ("AWS_PROFILE");
    search_t search = { .profile = profile? profile: "default", .is_profile_named = profile, .error = error,
        .error_bytes = error_bytes };
    int rc = s_read_files (&search);
    if (rc == 0)
        rc = s_choose (self, &search);
    for (size_t index = 0; index < 2; index++)
        s_profile_clear (&search.files [index]);
    s_say_memory (rc, error, error_bytes);
    if (rc)
        account_clear (self);
    return rc;
}

int
account_read_again (const account_t *self, account_key_t **key_p, char *error, size_t error_bytes)
{
    assert (self && self->source == ACCOUNT_PROFILE); assert (key_p); assert (error && error_bytes > 0);
    *key_p = NULL;
    error [0] = 0;
    profile_t profile = { .key = NULL };
    int rc = s_profile_read (&profile, self->file, self->profile, self->is_config, error, error_bytes);
    if (rc == 0)
        rc = profile.key && profile.secret? account_key_new (key_p, profile.key, profile.secret,
            profile.token, 0): -ENOKEY;
    s_profile_clear (&profile);
    if (rc == -ENOKEY || rc == -EBADMSG)
        snprintf (error, error_bytes, "profile '%.80s' in '%.400s' has no good keys now: write them again",
            self->profile, self->file);
    s_say_memory (rc, error, error_bytes);
    return rc;
}

void
account_clear (account_t *self)
{
    account_key_release (&self->key);
    char *all [] = { self->region, self->endpoint, self->profile, self->file, self->role, self->session,
        self->token_file, self->service, self->looked_at };
    for (size_t index = 0; index < sizeof all / sizeof *all; index++)
        free (all [index]);
    wiped_guarded_free (self->authorization);
    wiped_guarded_free (self->program);
    *self = (account_t) { .source = ACCOUNT_UNSIGNED };
}

const char *
account_domain (const char *region)
{
    assert (region);
    return strncmp (region, "cn-", 3) == 0? "amazonaws.com.cn": "amazonaws.com";
}

const char *
account_source_name (account_source_t source)
{
    switch (source) {
    case ACCOUNT_ENVIRONMENT:
        return "the environment";
    case ACCOUNT_PROFILE:
        return "a profile";
    case ACCOUNT_PROGRAM:
        return "a profile's program";
    case ACCOUNT_WEB_IDENTITY:
        return "a web identity";
    case ACCOUNT_CONTAINER:
        return "a container's role";
    case ACCOUNT_INSTANCE:
        return "an instance's role";
    default:
        return "unsigned";
    }
}

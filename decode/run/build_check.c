#include "build_check.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sodium.h>
#include <jpeglib.h>
#ifdef TUREEN_PNG
#include <png.h>
#endif
#ifdef TUREEN_SNDFILE
#include <sndfile.h>
#endif
#ifdef TUREEN_SOXR
#include <soxr.h>
#endif
#ifdef TUREEN_TIFF
#include <tiffio.h>
#endif
#ifdef TUREEN_WEBP
#include <webp/decode.h>
#endif
#include "build_version.h"

//  The bytes of the golden samples' files, in base 64.
//
//  Small pictures of waves and noise, written by Pillow 9.4, NumPy and the module wave.  They never change:
//  both sides of a handshake must have the same.

static const char s_baseline [] =
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAcFBQYFBAcGBgYIBwcICxILCwoKCxYPEA0SGhYbGhkWGRgcICgiHB4mHhgZIzAkJiorLS4"
    "tGyIyNTEsNSgsLSz/2wBDAQcICAsJCxULCxUsHRkdLCwsLCwsLCwsLCwsLCwsLCwsLCwsLCwsLCwsLCwsLCwsLCwsLCwsLCwsLCwsLC"
    "wsLCz/wAARCAAoADgDASIAAhEBAxEB/8QAGgAAAwEBAQEAAAAAAAAAAAAAAAUGAwIEB//EACcQAAEEAgEEAgEFAAAAAAAAAAEAAgMRB"
    "AUhBhIiMUGBFBNRcZHR/8QAGQEAAwEBAQAAAAAAAAAAAAAAAwQFAgAB/8QAIxEAAQQCAgEFAQAAAAAAAAAAAQACAwQFERIhExQiIzFB"
    "JP/aAAwDAQACEQMRAD8Ab5e5jmaaISLNiOWXdoJvhK4RN3+ZKfa8Atb3UhUIRUsueExeLHR8YjtTU2gkkksNJTPWaGSI2Qf9VOw47W+"
    "VfS1Zn40dAFqxZuSvuBwHSn07k9T7CWzYxhhpzTwlEma2Gb+CnWdmsmFMIN/sVM5WHLK8loNI11vnkaXJqbWQGnKgwd9ExosgIUqNfk"
    "sHo/2hXxBXLRsoMWJgjGiVSzwQtd40aKyBLAe1JsXaPnd7Np9hME9dyi2YjUjEjkvimSRyamS7LyZ2t8SSkk2wyWP9mrX0RuljyGcge"
    "rSjY9NxsLnABe1rMJj8hCsZS7Xa3i0dqf12XJM4B1/atNZhRTMBdX2peLB/Hfx8FN4ti7Fi4+Fhw9Y0uj/EhjgZj0qGbXYwj5AHHwhS"
    "Gb1K8EjuQprWT/W0xax0/Poog6ddjtsj0LXZn/DNXVIQqt+R0tRvNBaSTsr2YvUrGirC7yd82VtWhCNFVjFAnS2KkczveEv/AFxO+vd"
    "rWTEMkfHtCEviDxifpZsfyH4uksl0T5XE9pKEIUB9uUPcAf1c2/M4bJX/2Q==";

static const char s_progressive [] =
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAoHBwgHBgoICAgLCgoLDhgQDg0NDh0VFhEYIx8lJCIfIiEmKzcvJik0KSEiMEExNDk7Pj4"
    "+JS5ESUM8SDc9Pjv/2wBDAQoLCw4NDhwQEBw7KCIoOzs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Oz"
    "s7Ozv/wgARCAAoADgDAREAAhEBAxEB/8QAGQABAQADAQAAAAAAAAAAAAAABAMBAgUA/8QAGQEAAwEBAQAAAAAAAAAAAAAAAwQFAgEA/"
    "9oADAMBAAIQAxAAAAFCLJKiZvDutRSzw6E69EQ1qitrXXDsPsnCCEeb+moysapy04YqVMr9JQ9sD5FMCkHEcJBiecXEMUZqE9QTyh2m"
    "85JmKm9qfYTi/wD/xAAcEAADAQEBAQEBAAAAAAAAAAAAAQIRAxIhEBP/2gAIAQEAAQUCrppS9D5EchrF6xz1FpJ8PSKrRy2eWNL8psd"
    "sitIlMcIV6T9P56XxFOCvCuwuOG+Rdh9dN08j5H//xAAbEQACAwEBAQAAAAAAAAAAAAAAAQIDERMSIf/aAAgBAwEBPwHziLSE8ZC1E5"
    "6Ww0hS9HYia05s+oixLT4iNj0pWnNFiQhFjZywreE7idjZArROpYNiHHThpy8it8nc/8QAHhEAAgMBAQADAQAAAAAAAAAAAAECAxEhI"
    "gQSMTL/2gAIAQIBAT8BnD0fGeI+RYVWdLHwUfRGHkmukHhdrK4vR/guMjNYLpuCWigkSJcFYxV8Ln9SqZKzhGescNR9OkLNiX9ZRUXV"
    "4iv+jfJOz0f/xAAUEAEAAAAAAAAAAAAAAAAAAABQ/9oACAEBAAY/Ag//xAAaEAEBAAMBAQAAAAAAAAAAAAABABARITFB/9oACAEBAAE"
    "/IRGAq+TGEYGXTuJrBxeJjlrwPPL4oLJALRnggTCW3aMsmAZFOk7Ejf/aAAwDAQACAAMAAAAQGoRBu2Pwy362FrJu/wB//8QAGhEBAQ"
    "EAAwEAAAAAAAAAAAAAAQARECFBMf/aAAgBAwEBPxAULGKMUB6l4oo6vDe8UvsQspED7nGMyxt5AJ0stgZOSVjSZNODUSj6WzIKZf/EA"
    "BkRAQEBAQEBAAAAAAAAAAAAAAEAESEQMf/aAAgBAgEBPxBSfSggYLUYrCZg8BtQfqz0uJB68AoFn4W+iByLu2SrMTjQ6SSlBhnyDkcQ"
    "Cf/EABwQAQEBAQEAAwEAAAAAAAAAAAEAESExQXGBYf/aAAgBAQABPxBJiTJw9tOKX1GToMf0MEakPYxMNyQdy44kNi36mCIN4xnmNqI"
    "E9XtHNkgd/YwsHyTfzcu34SSXLwPhk5/F3GxO5/bvnmXM0jMs03KR3G//2Q==";

static const char s_grey [] =
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIxwcKDcpLDAxNDQ"
    "0Hyc5PTgyPC4zNDL/wAALCAAoADgBAREA/8QAGQABAQEBAQEAAAAAAAAAAAAABQQGAwIB/8QAJBAAAQUAAgICAgMAAAAAAAAAAQACAw"
    "QRBSESMRMiQYEUUXH/2gAIAQEAAD8AUs8rHK04QhbUZsk+IJ3pES8LI9+hpKR4/hnxnSClpYDFF209IuS0Ipf8KSqczGxo0hARCXy+x"
    "KbpAEDcSTTA0d5+l1bdrs6BChuW2SjGEHf6Wes1ZJHEtBxTilYYPRWgmhiafrhwrlpYD4qSzPM1v11ES3rDXezmqujZklcA7f2tdx9S"
    "OVoLsV0tGuGeh6WEr8g+Z3spqowTZ5JVvEsmb+kXf4FjSSAjoqfwP6/BSkd414+vwo7fPvGjyXyHg3Qjc9DV7+b+Kc3MVdfn2N60L3Y"
    "5lsgzVB8wmcur6xezpHScO+R2+JX/2Q==";

static const char s_png [] =
    "iVBORw0KGgoAAAANSUhEUgAAABQAAAAOCAIAAACgpqunAAACeElEQVR42gXByapkRRAA0IjIyMw71mBffepKRRcuFN0IQn+W3+Za6B+"
    "wQWgckYYGX/G6XtUd8+YQ4Tn4y88/8fz66Vr+un7z5vLy7ftPpvHffnn1Wfr9q+K+9D8M3Y/5Rf/u/ObP4dUfw9/vTh9J//KF/+5zRA"
    "5vlQqFTUoGdurOpe7BJSRVyJQNBhapszjFTP5G9Yq5Ko6LUcPjr0psV2dKZW0fDw/R2b3y1pNTtUvRkhNteU0ZNvS3+hRMSdBJpiJ8+"
    "cdo59IJZJC6ysNp3c/J9uBsk8hPEdc5yvtlvwLcXXur7K0uN/VpZWH+zxP6Vh0Y4raERkdMGXdWbSK4p10hzlIi5ohYneGgxovLwIsK"
    "8ePXVk1XoR6QTnFtLmAf90Juwv4Z7EiU0gxi2xJ7b7uHrh08FV1wmQD4+i3I3nUzNHfTzNuHY/RrCoFLOj2BuXuY3YKdkTYejlU78Lk"
    "xrpaap0DI9weS8QBCumbOS7vm7tmOM/PeZIObDWO7GNCmZqSm6uh0ztSmVN2NUQ4XwtBJsEWe0W7cbRbbyg+oPYhEu6dmli6r7aR0du"
    "6sRg5PxoxIwva1VXNUg2pGaNZymBJxUgPmCJKZnihPKBGS01jL41HyWvSiMiEoN7+RHpr2xHy+5PO2nSfom6XlXLW2xCaZNK80BX870"
    "dWGWzddk10lxLko8JAQQlsVNIIB49Ws1sZoeePKOjqQcEkY1h4iiF+yN1JD1LDtETI/fIFqrXHoGOc9h2vApaDhaDyhHpUOe8I9mgjo"
    "aPqg3vwiQ9GUVYQ//p4wYIpm3mhbID5LCmIjNmAsUEdgbRabUyVbA+OR0qegRtkXJ/I/PdeMIp29SPEAAAAASUVORK5CYII=";

static const char s_array [] =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsIDEyKSwgfSAgICAgICA"
    "gICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAEDAOL0pwG96E8BOb/q/venNvy1kob84vW"
    "m/FrIQv9ObXr6ykAU+nN70Pm96Uz/IQpY/WcjCP+pN7z+96Q1AhiwkQE5vOkAWslBA3/RmQKc3fUA4vYlAnN6UQAAAoEA=";

static const char s_wave [] =
    "UklGRrQBAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YZABAAAG/7UG2QvDDj0WShpmHNIdKx/VHR4clhvTGb0U9w7mCcI"
    "DYf6L+H/wCuxd6hLkbOCd4uLgMeLx5EHla+or77/zl/lC/xkGVwpjEOcTUxlUHVsd4x7CHdQfTxt4GEMWig5ECbUCLfyv+ZbyT+1Z6Y"
    "DkCOPP4QTiWOHI4kDmw+qq7zfzkfh2/XIEDgvAEJsT3RbwGugf6R/KHi8gyRvrF2AUSQ+UCRAFAv5W+CHzuu5v53/kbOJ24IngO+D74"
    "Wfk0OnM7xvyivosAGsCtApDEBMSDRmOGy8eziBCH2geRRpgGToVgRDrDUoEeP9t+LvzkfAP6XfkaeSy4IDgteGp4tvlN+pj77fxH/ua"
    "/n4DCgkiEHAW7hdkGpwf0x3RH+we5BsuF5gVkxCLCvsFaP45973wfu4H6cTmj+OW4QfgTuHu4znkmuo87VHzSPfz/r4Dpwl9DwkWABm"
    "8G3AcDR+3HZoeqxsKGQsUQRA/Cy8H6/8++pfyme9J6QXl3eLF4T/gduBU4zTkTuhs7CPy2/eN/J4E";

enum { ALIGNMENT = 64, ERROR_BYTES = 256, DIGEST_BYTES = 16, FILE_BYTES_MAX = 1200 };

#define CROP "[{\"op\":\"random_resized_crop\",\"size\":[24,28]},{\"op\":\"flip\"},{\"share\":true}]"
#define COLOUR "[{\"op\":\"resize\",\"size\":[17,23],\"interpolation\":\"bicubic\"}," \
    "{\"op\":\"color_jitter\",\"brightness\":0.4,\"contrast\":0.4,\"saturation\":0.4,\"hue\":0.2}," \
    "{\"share\":true}]"
#define POINTS "[{\"op\":\"resize\",\"size\":[19,22]},{\"op\":\"random_apply\",\"count\":1}," \
    "{\"op\":\"color_jitter\",\"contrast\":0.5},{\"op\":\"equalize\"}," \
    "{\"op\":\"adjust_sharpness\",\"factor\":2.5},{\"op\":\"autocontrast\"}," \
    "{\"op\":\"solarize\",\"threshold\":99.5},{\"op\":\"posterize\",\"bits\":5}," \
    "{\"op\":\"invert\"},{\"op\":\"gaussian_blur\",\"kernel_size\":[7,5]}," \
    "{\"op\":\"pillow_gaussian_blur\"},{\"share\":true}]"
#define MAPS "[{\"op\":\"resize\",\"size\":[26,29]}," \
    "{\"op\":\"random_rotation\",\"degrees\":180,\"interpolation\":\"bilinear\",\"expand\":true}," \
    "{\"op\":\"random_affine\",\"degrees\":20,\"translate\":[0.2,0.1],\"scale\":[0.7,1.4]," \
    "\"shear\":[-9,9,-9,9],\"fill\":[9,99,200]},{\"op\":\"random_perspective\",\"p\":1}," \
    "{\"op\":\"elastic_transform\",\"alpha\":90},"\
    "{\"op\":\"center_crop\",\"size\":24},{\"share\":true}]"
#define POLICIES "[{\"op\":\"rand_augment\",\"num_ops\":4},{\"op\":\"trivial_augment_wide\"}," \
    "{\"op\":\"auto_augment\",\"interpolation\":\"bilinear\"},{\"op\":\"aug_mix\"}," \
    "{\"op\":\"resize\",\"size\":[23,21]},{\"share\":true}]"
#define FAST "[{\"op\":\"decode\",\"exact\":false},{\"op\":\"resize\",\"size\":[12,14]},{\"share\":true}]"
#define ARRAY "[{\"op\":\"decode\",\"as\":\"array\",\"dtype\":\"float32\",\"shape\":[2,12]},{\"share\":true}]"
#define AUDIO "[{\"op\":\"decode\",\"as\":\"audio\",\"rate\":8000}," \
    "{\"op\":\"excerpt\",\"length\":64,\"place\":\"random\"},{\"share\":true}]"

#ifdef TUREEN_SOXR
#define RESAMPLED "[{\"op\":\"decode\",\"as\":\"audio\",\"rate\":11025,\"resample\":true}," \
    "{\"op\":\"excerpt\",\"length\":64,\"place\":\"random\"},{\"share\":true}]"
#else
#define RESAMPLED AUDIO
#endif

typedef struct { const char *name, *pipeline, *file; } sample_t;

static const sample_t s_samples [BUILD_CHECK_SAMPLES] = {
    { "JPEG, random crop", CROP, s_baseline },
    { "JPEG, colours", COLOUR, s_baseline },
    { "JPEG, point operations", POINTS, s_baseline },
    { "JPEG, affine maps", MAPS, s_baseline },
    { "JPEG, augmentation policies", POLICIES, s_baseline },
    { "JPEG, inexact", FAST, s_baseline },
    { "progressive JPEG, random crop", CROP, s_progressive },
    { "progressive JPEG, colours", COLOUR, s_progressive },
    { "grey JPEG, random crop", CROP, s_grey },
    { "PNG, random crop", CROP, s_png },
    { "PNG, colours", COLOUR, s_png },
    { "array", ARRAY, s_array },
    { "audio, random excerpt", AUDIO, s_wave },
    { "audio, resampled", RESAMPLED, s_wave }
};

const char *
build_check_name (size_t index)
{
    assert (index < BUILD_CHECK_SAMPLES);
    return s_samples [index].name;
}

static uint64_t
s_digest (const void *bytes, size_t size)
{
    uint8_t digest [DIGEST_BYTES];
    uint64_t number;
    crypto_generichash (digest, sizeof digest, bytes, size, NULL, 0);
    memcpy (&number, digest, sizeof number);
    return number;
}

static bool
s_decode (decoder_t *decoder, const sample_t *golden, const pipeline_t *pipeline, uint64_t nonce,
    uint64_t *digest_p)
{
    size_t bytes = pipeline_version_bytes (pipeline), room = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    uint8_t *version = aligned_alloc (ALIGNMENT, room);
    if (!version)
        return false;
    memset (version, 0, room);
    char error [ERROR_BYTES];
    uint8_t content [FILE_BYTES_MAX];
    size_t size;
    if (sodium_base642bin (content, sizeof content, golden->file, strlen (golden->file), NULL, &size, NULL,
        sodium_base64_VARIANT_ORIGINAL))
        assert (false);
    decoder_file_t file = { .bytes = content, .size = size };
    decoder_sample_t sample = { .files = &file, .warnings_max = 0 };
    pipeline_key_t key = { .seed = nonce, .round = 1, .id = (uint64_t) (golden - s_samples) };
    decoder_status_t status = decoder_shared (decoder, pipeline, &key, &sample, version, NULL, error,
        sizeof error);
    *digest_p = status == DECODER_OK? s_digest (version, bytes): s_digest (error, strlen (error));
    free (version);
    return status != DECODER_NO_MEMORY;
}

bool
build_check_make (decoder_t *decoder, uint64_t nonce, uint64_t digests [BUILD_CHECK_SAMPLES])
{
    for (size_t index = 0; index < BUILD_CHECK_SAMPLES; index++) {
        const pipeline_t *pipeline;
        char error [ERROR_BYTES];
        json_t *list = json_loads (s_samples [index].pipeline, 0, NULL);
        int rc = list? pipeline_new (&pipeline, list, NULL, NULL, 0, error, sizeof error): -1;
        json_decref (list);
        bool good = rc == 0 && s_decode (decoder, &s_samples [index], pipeline, nonce, &digests [index]);
        //  A pipeline that this build does not know: what it says of it differs from any version.
        if (list && rc && strlen (error)) {
            digests [index] = s_digest (error, strlen (error));
            good = true;
        }
        if (rc == 0)
            pipeline_destroy (&pipeline);
        if (!good)
            return false;
    }
    return true;
}

//  ---- libraries

enum { WEBP_BYTES = 32, TIFF_BYTES = 32 };

#define TEXT_OF(macro) #macro
#define TEXT(macro) TEXT_OF (macro)

void
build_check_libraries (char text [BUILD_CHECK_LIBRARIES_BYTES])
{
    const char *png = "no libpng", *audio = "no libsndfile", *soxr = "no libsoxr";
    char webp [WEBP_BYTES] = "no libwebp", tiff [TIFF_BYTES] = "no libtiff";
#ifdef TUREEN_PNG
    png = "libpng " PNG_LIBPNG_VER_STRING;
#endif
#ifdef TUREEN_WEBP
    int version = WebPGetDecoderVersion ();
    snprintf (webp, sizeof webp, "libwebp %d.%d.%d", version >> 16 & 255, version >> 8 & 255, version & 255);
#endif
#ifdef TUREEN_TIFF
    char number [TIFF_BYTES / 2] = "";       //  of "LIBTIFF, Version 4.5.0" and a copyright
    sscanf (TIFFGetVersion (), "%*s %*s %15s", number);
    snprintf (tiff, sizeof tiff, "libtiff %s", number);
#endif
#ifdef TUREEN_SNDFILE
    audio = sf_version_string ();
#endif
#ifdef TUREEN_SOXR
    soxr = soxr_version ();
#endif
    snprintf (text, BUILD_CHECK_LIBRARIES_BYTES, "tureen %s, libjpeg-turbo %s, %s, %s, %s, %s, %s",
        build_version (), TEXT (LIBJPEG_TURBO_VERSION), png, webp, tiff, audio, soxr);
}

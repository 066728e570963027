#include "disk_sync.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int
disk_sync (int fd)
{
    while (fsync (fd))
        if (errno != EINTR)
            return errno == EINVAL? 0: -errno;
    return 0;
}

int
disk_sync_name (int folder)
{
    struct stat status, status_above;
    int above = openat (folder, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above < 0)
        return errno == EACCES? 0: -errno;
    int rc = fstat (folder, &status) || fstat (above, &status_above)? -errno: 0;
    if (rc == 0 && status.st_dev == status_above.st_dev)
        rc = disk_sync (above);
    close (above);
    return rc;
}

#!/bin/sh
# Becomes the first process of a machine of its own: a writable copy of this one's files in memory, private namespaces, and
# the real systemd. Called by machine.py under unshare; $1 is an empty directory, $2 one whose content goes into /opt.
set -eu
top=$1
mount --make-rprivate /
mount -t tmpfs tmpfs "$top"
mkdir "$top/upper" "$top/work" "$top/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" "$top/root"
cd "$top/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
for place in run tmp dev; do mount -t tmpfs tmpfs $place; done
for device in null zero full random urandom tty; do
    touch dev/$device
    mount --bind /dev/$device dev/$device
done
mkdir dev/shm dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t devpts devpts dev/pts -o newinstance,ptmxmode=0666
ln -s pts/ptmx dev/ptmx  # else no service gets a private /dev
mount -t cgroup2 cgroup2 sys/fs/cgroup
mkdir -p etc/systemd/system old
cp -a "$2/." opt/
# What has no place in a machine without hardware, or would touch the kernel that is shared.
for unit in systemd-sysctl systemd-modules-load systemd-remount-fs systemd-udevd systemd-timesyncd; do
    ln -sf /dev/null etc/systemd/system/$unit.service
done
pivot_root . old
umount -l /old
mount --make-rshared /  # else credentials and private mounts of services stay empty
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin container=crdtsync-test \
    /lib/systemd/systemd --system --unit=basic.target

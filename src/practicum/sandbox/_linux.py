"""What Linux offers to hold a program: namespaces, mounts, seccomp, Landlock, capabilities.

Standard library only: this file is loaded by the process that forks the programs, which must stay
small. Numbers are those of the kernel's headers; x86-64 and AArch64 are known.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import struct
from collections.abc import Sequence

MACHINE = {"x86_64": 0, "aarch64": 1, "arm64": 1}.get(platform.machine())
AUDIT_ARCH = (0xC000003E, 0xC00000B7)


def _calls(text: str) -> dict[str, tuple[int, int]]:
    """``name:x86:arm`` each."""
    fields = (word.split(":") for word in text.split())
    return {name: (int(x86), int(arm)) for name, x86, arm in fields}


# System calls by name: (x86-64, AArch64), -1 where there is none. An allow list: what is not named
# is refused, so that a new system call is not a new hole.
ALWAYS = _calls("""
    read:0:63 write:1:64 close:3:57 fstat:5:80 lseek:8:62 mmap:9:222 mprotect:10:226
    munmap:11:215 brk:12:214 rt_sigaction:13:134 rt_sigprocmask:14:135 rt_sigreturn:15:139
    pread64:17:67 pwrite64:18:68 readv:19:65 writev:20:66 access:21:-1 pipe:22:-1 select:23:-1
    sched_yield:24:124 mremap:25:216 madvise:28:233 dup:32:23 dup2:33:-1 pause:34:-1
    nanosleep:35:101 getitimer:36:102 alarm:37:-1 setitimer:38:103 getpid:39:172 sendfile:40:71
    exit:60:93 wait4:61:260 uname:63:160 flock:73:32 fsync:74:82 fdatasync:75:83 getdents:78:-1
    getdents64:217:61 getcwd:79:17 chdir:80:49 fchdir:81:50 readlink:89:-1 umask:95:166
    gettimeofday:96:169 getrlimit:97:163 getrusage:98:165 sysinfo:99:179 times:100:153
    getuid:102:174 getgid:104:176 geteuid:107:175 getegid:108:177 getppid:110:173 getpgrp:111:-1
    getpgid:121:155 getsid:124:156 getgroups:115:158 getresuid:118:148 getresgid:120:150
    rt_sigpending:127:136 rt_sigtimedwait:128:137 rt_sigsuspend:130:133 sigaltstack:131:132
    statfs:137:43 fstatfs:138:44 getpriority:140:141 gettid:186:178 futex:202:98
    sched_getaffinity:204:123 sched_getparam:143:121 sched_getscheduler:145:120
    sched_get_priority_max:146:125 sched_get_priority_min:147:126 epoll_create:213:-1
    epoll_create1:291:20 epoll_ctl:233:21 epoll_wait:232:-1 epoll_pwait:281:22 eventfd2:290:19
    clock_gettime:228:113 clock_getres:229:114 clock_nanosleep:230:115 exit_group:231:94
    stat:4:-1 lstat:6:-1 newfstatat:262:79 readlinkat:267:78 faccessat:269:48 faccessat2:439:439
    pselect6:270:72 ppoll:271:73 poll:7:-1 set_robust_list:273:99 get_robust_list:274:100
    dup3:292:24 pipe2:293:59 preadv:295:69 pwritev:296:70 getrandom:318:278 membarrier:324:283
    rseq:334:293 statx:332:291 copy_file_range:326:285 close_range:436:436 recvmsg:47:212
    restart_syscall:219:128 set_tid_address:218:96 arch_prctl:158:-1 time:201:-1 recvfrom:45:207
    shutdown:48:210 getsockopt:55:209 setsockopt:54:208 getsockname:51:204 getpeername:52:205
""")
# only where the file system is the program's own scratch
WRITING = _calls("""
    truncate:76:45 ftruncate:77:46 rename:82:-1 mkdir:83:-1 rmdir:84:-1 creat:85:-1 link:86:-1
    unlink:87:-1 symlink:88:-1 chmod:90:-1 fchmod:91:52 utime:132:-1 utimes:235:-1
    mkdirat:258:34 unlinkat:263:35 renameat:264:38 renameat2:316:276 linkat:265:37
    symlinkat:266:36 fchmodat:268:53 utimensat:280:88 fallocate:285:47
""")
# allowed or refused by their arguments
JUDGED = _calls("""
    clone:56:220 socketpair:53:199 kill:62:129 tgkill:234:131 prlimit64:302:261 sendto:44:206
    fcntl:72:25 ioctl:16:29 open:2:-1 openat:257:56 clone3:435:435 openat2:437:437
""")

CLONE_THREAD = 0x00010000
NEW_NS, NEW_UTS, NEW_IPC = 0x00020000, 0x04000000, 0x08000000
NEW_USER, NEW_PID, NEW_NET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND = 1, 2, 4, 32, 4096
MS_REC, MS_PRIVATE = 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP = 1, 4, 22
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
MOUNT_SETATTR, LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 442, 444, 445, 446
PIVOT_ROOT = (155, 41)
MOUNT_DETACH = 2
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID = 1, 2

libc = ctypes.CDLL(None, use_errno=True)
_number = ctypes.c_ulong  # every argument of prctl and syscall is as wide as a register


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def prctl(option: int, *values: int) -> None:
    """``prctl(2)``; raises OSError."""
    padded = [*values, 0, 0, 0, 0][:4]
    _check(libc.prctl(ctypes.c_int(option), *map(_number, padded)), f"prctl {option}")


def syscall(number: int, *arguments: object) -> int:
    """A system call the C library has no name for; raises OSError."""
    wide = [_number(a) if isinstance(a, int) else a for a in arguments]
    return _check(libc.syscall(ctypes.c_long(number), *wide), f"system call {number}")


def unshare(flags: int) -> None:
    """``unshare(2)``; raises OSError."""
    _check(libc.unshare(ctypes.c_int(flags)), "unshare")


def die_with_parent() -> None:
    """SIGKILL for this process as soon as its parent is gone."""
    prctl(PR_SET_PDEATHSIG, 9)


# --- the file system -----------------------------------------------------------------------------


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """``mount(2)``; raises OSError."""
    words = [w.encode() if w else None for w in (source, target, kind)]
    options = data.encode() if data else None
    result = libc.mount(*words, _number(flags), options)
    _check(result, f"mount {source or kind} on {target}")


def bind_read_only(source: str, target: str) -> None:
    """Show ``source`` and all mounted below it at ``target``, read only (Linux 5.12)."""
    mount(source, target, "", MS_BIND | MS_REC)
    attributes = struct.pack("=QQQQ", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, 0, 0, 0)
    syscall(MOUNT_SETATTR, AT_FDCWD, target.encode(), AT_RECURSIVE, attributes, len(attributes))


def new_root(root: str, visible: Sequence[str], scratch: str, scratch_bytes: int) -> None:
    """Replace this process's file system: ``visible`` read only, ``scratch`` in memory, no more.

    There is no ``/proc``, so no process can read another's memory or environment, and no device
    but the harmless ones. `root` is an empty folder that becomes the new root.
    """
    mount("", "/", "", MS_REC | MS_PRIVATE)
    mount("practicum", root, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    for path in visible:
        os.makedirs(root + path, exist_ok=True)
        bind_read_only(path, root + path)
    os.makedirs(f"{root}/dev", exist_ok=True)
    for name in ("null", "zero", "random", "urandom"):
        with open(f"{root}/dev/{name}", "w"):
            pass
        mount(f"/dev/{name}", f"{root}/dev/{name}", "", MS_BIND)
    os.makedirs(root + scratch, exist_ok=True)
    mount("", root, "", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    mount_scratch(root + scratch, scratch_bytes)
    os.chdir(root)
    syscall(PIVOT_ROOT[MACHINE or 0], b".", b".")
    _check(libc.umount2(b".", MOUNT_DETACH), "umount of the old root")
    os.chdir("/")


def mount_scratch(path: str, size: int) -> None:
    """A folder in memory: at most ``size`` bytes and a thousand files."""
    options = f"size={size},nr_inodes=1024,mode=777"
    mount("scratch", path, "tmpfs", MS_NOSUID | MS_NODEV, options)


def renew_scratch(path: str, size: int) -> None:
    """An empty folder again, whatever a program left in it."""
    _check(libc.umount2(path.encode(), MOUNT_DETACH), "umount of the scratch folder")
    mount_scratch(path, size)


def landlock_version() -> int:
    """The kernel's Landlock version, 0 where there is none."""
    try:
        return syscall(LANDLOCK_CREATE, 0, 0, 1)
    except OSError:
        return 0


def landlock(visible: Sequence[str]) -> None:
    """This process may read below ``visible`` and touch no other file (needs no privilege)."""
    version = landlock_version()
    bits = {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)
    attributes = struct.pack("=QQQ", (1 << bits) - 1, 3 if version >= 4 else 0, 3)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = syscall(LANDLOCK_CREATE, attributes[:size], size, 0)
    execute_and_read = 1 | 4 | 8
    for path, access in [*((p, execute_and_read) for p in visible), ("/dev/null", 4 | 2)]:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        syscall(LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", access, handle), 0)
        os.close(handle)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    syscall(LANDLOCK_RESTRICT, ruleset, 0)
    os.close(ruleset)


# --- privileges ----------------------------------------------------------------------------------


def other_user(wanted: int) -> int | None:
    """Whom root can become, `wanted` if it can: None for others, and where there is only root.

    Containers that were started without root, or with one user alone, know few users or none more.
    """
    if os.geteuid() != 0:
        return None
    ends, alone = [], False
    # kernels without user namespaces have none of these files, and all users
    for name in ("uid_map", "gid_map"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/self/{name}") as handle:
            ranges = [tuple(map(int, line.split())) for line in handle]
            ends.append(max(first + count for first, _, count in ranges))
    with contextlib.suppress(FileNotFoundError), open("/proc/self/setgroups") as handle:
        alone = handle.read().strip() == "deny"
    user = min([wanted, *(end - 1 for end in ends)])
    return None if alone or user <= 0 else user


def gain_nothing() -> None:
    """No capability that is not held now, not even by running another file; children inherit it."""
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            break  # past the last one, or there was none to drop
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Let go of every capability."""
    header = struct.pack("=Ii", 0x20080522, 0)
    _check(libc.capset(header, bytes(24)), "capset")


ALLOW, KILL = 0x7FFF0000, 0x80000000
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
Instruction = tuple[int, int, int, int]


def _refuse(code: int) -> Instruction:
    return (RETURN, 0, 0, 0x00050000 | code)


_ALLOW: Instruction = (RETURN, 0, 0, ALLOW)
_EPERM = _refuse(errno.EPERM)


def _argument(i: int, high: bool = False) -> Instruction:
    return (LOAD, 0, 0, 16 + 8 * i + 4 * high)


def _only(i: int, value: int) -> list[Instruction]:
    """Allowed where argument i has this value."""
    return [_argument(i), (EQUAL, 0, 1, value), _ALLOW, _EPERM]


def _none_of(i: int, values: Sequence[int]) -> list[Instruction]:
    tests: list[Instruction] = []
    for value in values:
        tests += [(EQUAL, 0, 1, value), _EPERM]
    return [_argument(i), *tests, _ALLOW]


def _no_bit(i: int, bits: int) -> list[Instruction]:
    return [_argument(i), (ANY_BIT, 0, 1, bits), _EPERM, _ALLOW]


def _rules(pid: int, may_write: bool) -> dict[str, list[Instruction]]:
    """How the judged system calls are judged."""
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
    no_address = [
        _argument(4),
        (EQUAL, 1, 0, 0),
        _EPERM,
        _argument(4, high=True),
        (EQUAL, 1, 0, 0),
        _EPERM,
        _ALLOW,
    ]
    return {
        "clone": [_argument(0), (ANY_BIT, 0, 1, CLONE_THREAD), _ALLOW, _EPERM],
        "clone3": [_refuse(errno.ENOSYS)],  # its flags lie in memory: glibc falls back to clone
        "openat2": [_refuse(errno.ENOSYS)],
        "socketpair": _only(0, 1),  # AF_UNIX: what asyncio wakes itself with
        "sendto": no_address,
        "kill": _only(0, pid),
        "tgkill": _only(0, pid),
        "prlimit64": _only(0, 0),
        "fcntl": _none_of(1, (8, 10, 15)),  # F_SETOWN, F_SETSIG, F_SETOWN_EX: signals to others
        "ioctl": _none_of(1, (0x8901, 0x8902, 0x5412)),  # FIOSETOWN, SIOCSPGRP, TIOCSTI
        "open": [_ALLOW] if may_write else _no_bit(1, writing),
        "openat": [_ALLOW] if may_write else _no_bit(2, writing),
    }


def seccomp_program(pid: int, may_write: bool) -> list[Instruction]:
    """The filter for one program; ``pid`` is the only process it may send signals to."""
    column = MACHINE or 0
    plain = ALWAYS | (WRITING if may_write else {})
    blocks = {numbers[column]: [_ALLOW] for numbers in plain.values()}
    for name, block in _rules(pid, may_write).items():
        blocks[JUDGED[name][column]] = block
    blocks.pop(-1, None)  # not on this processor
    known_machine = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, AUDIT_ARCH[column]), (RETURN, 0, 0, KILL)]
    return [*known_machine, (LOAD, 0, 0, 0), *_search(_runs(blocks))]


def _runs(blocks: dict[int, list[Instruction]]) -> list[tuple[int, list[Instruction]]]:
    """``(first number, block)`` from 0 to the end: neighbours with the same block are one run."""
    runs: list[tuple[int, list[Instruction]]] = []
    for number in range(max(blocks) + 2):
        block = blocks.get(number, [_EPERM])
        if not runs or runs[-1][1] != block:
            runs.append((number, block))
    return runs


def _search(runs: list[tuple[int, list[Instruction]]]) -> list[Instruction]:
    """The run a number falls in, by halving.

    The kernel tries a new filter on every number there is, in every program's process: with a list
    that is gone through from its start, that took as long as forking.
    """
    if len(runs) == 1:
        return runs[0][1]
    middle = len(runs) // 2
    below, above = _search(runs[:middle]), _search(runs[middle:])
    if len(below) > 255:
        raise ValueError("a filter's jumps reach 255 instructions")
    return [(AT_LEAST, len(below), 0, runs[middle][0]), *below, *above]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


class Filter:
    """A seccomp filter that is put together once and applied in every program's process."""

    ANYBODY = 0x7FABCDEF  # stands for the process's own number until that is known

    def __init__(self, may_write: bool) -> None:
        instructions = seccomp_program(self.ANYBODY, may_write)
        packed = b"".join(struct.pack("=HBBI", *i) for i in instructions)
        anybody = struct.pack("=I", self.ANYBODY)
        self.places = [at for at in range(len(packed)) if packed.startswith(anybody, at)]
        self.code = ctypes.create_string_buffer(packed, len(packed))
        self.program = _Program(len(instructions), ctypes.addressof(self.code))
        self.address = ctypes.addressof(self.program)

    def apply(self) -> None:
        """Hold this process, for good, to the system calls of :func:`seccomp_program`."""
        for at in self.places:
            struct.pack_into("=I", self.code, at, os.getpid())
        prctl(PR_SET_SECCOMP, 2, self.address)

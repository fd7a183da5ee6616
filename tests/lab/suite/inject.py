"""System calls of another process's first thread, as if its own code had made them (ptrace(2))."""
import contextlib
import ctypes
import os
import signal
import struct

ATTACH, GET_REGISTERS, SET_REGISTERS, SINGLE_STEP, DETACH = 16, 12, 13, 9, 17
WAIT_ALL = 0x40000000
# struct user_regs_struct of x86_64.
REGISTERS = ("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs"
             " gs").split()
LAYOUT = struct.Struct(f"={len(REGISTERS)}Q")
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def _ptrace(request, pid, data=None):
    if libc.ptrace(request, pid, None, data) < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _wait(pid):
    return os.waitpid(pid, WAIT_ALL)[1]


class Injector:
    """For a process that waits in a system call."""

    def __init__(self, pid):
        self._pid = pid

    def _registers(self):
        raw = ctypes.create_string_buffer(LAYOUT.size)
        _ptrace(GET_REGISTERS, self._pid, ctypes.addressof(raw))
        return dict(zip(REGISTERS, LAYOUT.unpack(raw.raw)))

    def _set_registers(self, registers):
        raw = ctypes.create_string_buffer(LAYOUT.pack(*(registers[name] for name in REGISTERS)))
        _ptrace(SET_REGISTERS, self._pid, ctypes.addressof(raw))

    def call(self, number, *arguments):
        """What the call returns, negative for an error; a word for one that ends the process ("SIGSYS"). Bytes are passed by
        their address, on the stack below what is in use."""
        before = self._registers()
        now = dict(before, orig_rax=(1 << 64) - 1, rax=number, rip=before["rip"] - 2)
        room = before["rsp"] - 4096
        for register, argument in zip(("rdi", "rsi", "rdx", "r10", "r8", "r9"), arguments):
            if isinstance(argument, bytes):
                with open(f"/proc/{self._pid}/mem", "r+b", buffering=0) as memory:
                    memory.seek(room)
                    memory.write(argument + b"\0")
                argument, room = room, room + len(argument) + 1
            now[register] = argument % (1 << 64)
        self._set_registers(now)
        _ptrace(SINGLE_STEP, self._pid)
        status = _wait(self._pid)
        while os.WIFSTOPPED(status) and os.WSTOPSIG(status) != signal.SIGTRAP:
            _ptrace(SINGLE_STEP, self._pid, os.WSTOPSIG(status))
            status = _wait(self._pid)
        if not os.WIFSTOPPED(status):
            return signal.Signals(os.WTERMSIG(status)).name
        result = self._registers()["rax"]
        self._set_registers(before)
        return result - (1 << 64) if result >> 63 else result


@contextlib.contextmanager
def injector(pid):
    _ptrace(ATTACH, pid)
    _wait(pid)
    try:
        yield Injector(pid)
    finally:
        with contextlib.suppress(OSError):  # it has ended
            _ptrace(DETACH, pid)

"""gdb commands for programs that use weft, running or dead (a core file).

    (gdb) source tools/gdb/weft.py
    (gdb) weft tasks             who is there, and what everybody waits for
    (gdb) weft bt 7              the backtrace of the task with tid 7
    (gdb) weft switch 7          then up, down, info locals, print look at task 7
    (gdb) help weft

Nothing in the program is run or changed, so all of this works on a core file too. It needs weft's
debug information (-g); optimised code is fine.

How a parked fiber's stack is shown: gdb unwinds from registers, and those of a core file cannot be
set. So an unwinder, registered here, claims for the innermost frame of the selected thread that it
was called from the place where the fiber is parked. From there on gdb unwinds as it always does.
"""

import contextlib
import importlib
import os
import re
import sys

import gdb
import gdb.unwinder

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import weft_program as program  # noqa: E402

importlib.reload(program)  # sourced again: take what is there now
sys.path.pop(0)

INDENT_MAX = 40  # as in weft::dump(): deeper trees stay readable
WHERE_BY_UNWINDING_MAX = 500  # tasks; after that, frame pointers have to do
FRAMES_MAX = 64
REGISTERS = {"i386:x86-64": ("rip", "rsp", "rbp"), "aarch64": ("pc", "sp", "x29")}


# --- the stacks of parked fibers ----------------------------------------------------------------


class FrameId:
    def __init__(self, sp, pc):
        self.sp = gdb.Value(sp)
        self.pc = gdb.Value(pc)


class ParkedUnwinder(gdb.unwinder.Unwinder):
    """While it has a fiber: the selected thread's innermost frame was called by that fiber."""

    def __init__(self):
        super().__init__("weft")
        self.fiber = None
        self._at = None

    def show(self, fiber):
        self.hide()
        frame = gdb.newest_frame()
        names = self.registers(frame.architecture())
        self._at = tuple(int(frame.read_register(name)) for name in names[:2])
        self.fiber = fiber
        gdb.invalidate_cached_frames()

    def hide(self):
        if self.fiber is not None:
            self.fiber = None
            gdb.invalidate_cached_frames()

    @staticmethod
    def registers(architecture):
        try:
            return REGISTERS[architecture.name()]
        except KeyError:
            raise gdb.GdbError(f"weft: no support for {architecture.name()}") from None

    def __call__(self, pending_frame):
        if self.fiber is None:
            return None
        names = self.registers(pending_frame.architecture())
        pc, sp = (pending_frame.read_register(name) for name in names[:2])
        if (int(pc), int(sp)) != self._at:
            return None
        # gdb wants each frame above the one it called, so this one pretends to be just below.
        info = pending_frame.create_unwind_info(FrameId(self.fiber.sp - 16, int(pc)))
        for name, number in zip(names, (self.fiber.pc, self.fiber.sp, self.fiber.fp)):
            kind = pending_frame.read_register(name).type
            info.add_saved_register(name, gdb.Value(number).cast(kind))
        return info

    def first_frame(self):
        """The fiber's innermost frame."""
        frame = gdb.newest_frame()
        names = self.registers(frame.architecture())
        while frame is not None:
            if frame.pc() == self.fiber.pc and int(frame.read_register(names[1])) == self.fiber.sp:
                return frame
            frame = frame.older()
        raise gdb.GdbError("weft: gdb did not follow the fiber's stack")


unwinder = ParkedUnwinder()
gdb.unwinder.register_unwinder(None, unwinder, replace=True)
gdb.events.cont.connect(lambda event: unwinder.hide())
gdb.events.exited.connect(lambda event: unwinder.hide())


UNREADABLE = ("memory is missing or damaged. A core file made by gdb or gcore lacks guarded "
              "stacks, unless it ran with WEFT_STACK_GUARD=mprotect; the kernel's has them")


@contextlib.contextmanager
def undisturbed():
    """Leaves the selected thread, frame and fiber as they were. Unreadable memory is an error."""
    program.require_process()
    thread, fiber = gdb.selected_thread(), unwinder.fiber
    level = gdb.selected_frame().level()
    try:
        unwinder.hide()
        yield
    except gdb.MemoryError as error:
        raise gdb.GdbError(f"weft: {error}: {UNREADABLE}") from None
    finally:
        thread.switch()
        unwinder.hide()
        if fiber is not None:
            unwinder.show(fiber)
        frame = gdb.newest_frame()
        while frame.level() < level and frame.older() is not None:
            frame = frame.older()
        frame.select()


def running_threads():
    """Which thread runs which task, by the task's address."""
    found = {}
    variable = gdb.lookup_global_symbol("weft_this_thread")
    layout = program.Layout()
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        try:
            current = int(variable.value()) if variable is not None else 0
            while current:  # engines nest
                found[program.read_word(current + layout.current_wait)] = thread
                current = program.read_word(current + layout.worker_outer)
        except gdb.error:  # no thread-local storage without libthread_db
            pass
    return found


def thread_by_stack(task):
    """Without thread-local storage: the thread that has a frame on the fiber's stack."""
    fiber = task.fiber
    for thread in gdb.selected_inferior().threads() if fiber else ():
        thread.switch()
        frame = gdb.newest_frame()
        name = ParkedUnwinder.registers(frame.architecture())[1]
        for _ in range(FRAMES_MAX):
            if frame is None:
                break
            if fiber.bottom <= int(frame.read_register(name)) < fiber.top:
                return thread
            frame = frame.older()
    return None


class Where:
    """The user's function that a parked task is in, as ` in f() at file.cpp:7`."""

    def __init__(self):
        self._unwound = 0
        self._functions = {}
        self._coroutines = {}

    def of(self, task):
        try:
            if task.kind == "fiber":
                return self._of_fiber(task.parked_fiber) if task.parked_fiber else ""
            return self._of_coroutine(task.resume_point) if task.resume_point else ""
        except gdb.error:
            return ""

    def _of_coroutine(self, handle):
        code = program.read_word(handle)
        if code not in self._coroutines:
            innermost = program.Coroutine(handle)
            self._coroutines[code] = f" in {innermost.name}" + program.short(innermost.place)
        return self._coroutines[code]

    def _of_fiber(self, fiber):
        if self._unwound < WHERE_BY_UNWINDING_MAX:
            self._unwound += 1
            return self._by_unwinding(fiber)
        return self._by_frame_pointers(fiber)

    @staticmethod
    def _by_unwinding(fiber):
        unwinder.show(fiber)
        frame = unwinder.first_frame()
        for _ in range(FRAMES_MAX):
            if frame is None:
                break
            sal = frame.find_sal()
            name = program.user_function(frame.name(), sal.symtab)
            if name:
                return f" in {name}" + program.short(program.place_of(sal.symtab, sal.line))
            frame = frame.older()
        return ""

    def _by_frame_pointers(self, fiber):
        lowest, fp = fiber.sp, fiber.fp
        for _ in range(FRAMES_MAX):
            if fp % 8 != 0 or not lowest <= fp <= fiber.top - 16:
                break
            pc = program.read_word(fp + 8)
            if pc not in self._functions:
                self._functions[pc] = self._function_at(pc - 1)
            if self._functions[pc]:
                return f" in {self._functions[pc]}"
            lowest, fp = fp + 16, program.read_word(fp)
        return ""

    @staticmethod
    def _function_at(pc):
        block = gdb.block_for_pc(pc)
        while block is not None and not block.is_global:
            if block.function is not None:
                symtab, line = block.function.symtab, block.function.line
                name = program.user_function(block.function.print_name, symtab)
                if name:
                    return name + program.short(program.place_of(symtab, line))
            block = block.superblock
        return ""


# --- what is printed ----------------------------------------------------------------------------


class Printer:
    def __init__(self):
        self._words = {}
        self._where = Where()
        self.threads = running_threads()

    def task(self, task, where=True):
        """One line, in the words of weft::dump()."""
        text = f"{task.name} (tid {task.tid}, {task.kind}) {task.state}"
        if task.state == "blocked":
            text += ": " + task.waits_for(self._words)
        thread = self.threads.get(task.address)
        if thread is not None and (task.state == "running" or task.kind == "thread"):
            text += f" on thread {thread.num}"
        elif where:
            text += self._where.of(task)
        fiber = task.parked_fiber
        if fiber is not None:
            text += f", stack {fiber.top - fiber.sp} of {fiber.size}"
        if task.cancelled != "none":
            text += ", cancelled: " + task.cancelled
        return text

    @staticmethod
    def scope(layout, node):
        data = program.read(node - layout.scope_node, layout.scope_size)
        size = min(layout.scope_name_size(data), 200)
        name = program.read(layout.scope_name(data), size) if size else b""
        text = "scope" + (f" '{name.decode('utf-8', 'replace')}'" if name else "")
        if layout.scope_id(data):
            text += f" #{layout.scope_id(data)}"
        reason = layout.reasons.get(layout.scope_cancelled(data), "?")
        return text + (f", cancelled: {reason}" if reason != "none" else "")

    def backtrace(self, task, indent="", options=""):
        if task.state == "running" or task.kind == "thread":
            self._backtrace_of_thread(task, indent, options)
        elif task.kind == "coroutine":
            chain = program.coroutine_chain(task.resume_point)
            for i, coroutine in enumerate(chain):
                place = f" at {coroutine.place}" if coroutine.place else ""
                say(f"{indent}#{i:<3}{coroutine.name}{place}{coroutine.point}")
            if not task.resume_point:
                say(indent + "it has not run yet")
        elif task.parked_fiber is None:
            say(indent + "it has not run yet")
        else:
            self._backtrace_of_fiber(task.parked_fiber, indent, options)

    def _backtrace_of_thread(self, task, indent, options):
        thread = self.threads.get(task.address) or thread_by_stack(task)
        if thread is None:
            say(indent + "it is running, but none of the threads seems to run it")
            return
        thread.switch()
        for line in backtrace_lines(options):
            say(indent + line)

    @staticmethod
    def _backtrace_of_fiber(fiber, indent, options):
        unwinder.show(fiber)
        first = unwinder.first_frame().level()
        # A count, as in `bt 5`, is of the fiber's frames.
        options = re.sub(r"(?<!\S)\d+$", lambda m: str(int(m.group()) + first), options)
        level = 0
        for line in backtrace_lines(options):
            match = re.match(r"#(\d+) +", line)
            if match:
                level = int(match.group(1))
                line = f"#{level - first:<3}" + line[match.end() :]
            if level >= first:
                say(indent + line)


def backtrace_lines(options):
    text = gdb.execute(f"backtrace {options}", to_string=True)
    # gdb cannot match the types of lambdas with their virtual tables, and says so mid-line.
    text = re.sub(r"warning: RTTI symbol not found for class '.*'\n", "", text)
    return [program.readable(line) for line in text.splitlines()]


def say(text):
    gdb.write(text + "\n")


def print_tasks(limit, flat, backtraces=False):
    ios = program.all_ios()
    if not ios:
        say("weft: no Io exists at the moment")
    printer = Printer()
    left = limit
    for io in ios:
        say(f"{io.kind}: {io.live} task(s)" + (f" [{io.number}]" if len(ios) > 1 else ""))
        left = print_io(printer, io, left, flat, backtraces)


def print_io(printer, io, limit, flat, backtraces):
    """Prints at most `limit` tasks; returns how many more may be printed."""
    printed = 0
    try:
        for depth, kind, node in io.nodes():
            indent = "  " * (1 if flat else min(depth, INDENT_MAX))
            if kind == "task":
                if printed == limit:
                    break
                printed += 1
                task = program.Task(io.layout, node - io.layout.task_node, io)
                say(indent + printer.task(task, where=not backtraces))
                if backtraces:
                    printer.backtrace(task, indent + "    ")
            elif not flat:
                say(indent + (printer.scope(io.layout, node) if kind == "scope" else kind))
    except gdb.MemoryError as error:
        say(f"  ... the rest cannot be read: {error}: {UNREADABLE}")
        return limit - printed
    if printed < io.live and printed == limit:
        say(f"  ... and {io.live - printed} more task(s)")
    return limit - printed


# --- commands -----------------------------------------------------------------------------------


class Weft(gdb.Command):
    """Look at the tasks of a program that uses weft.

weft tasks [-n COUNT] [-flat]   all tasks as a tree, with what they wait for
weft bt TID                     the backtrace of one task; also a name instead of a tid
weft bt all [-n COUNT]          of all tasks
weft switch TID                 make a parked fiber's frames the ones to look at
weft switch off                 back to the thread's own

Where a program has several Ios, TID may be written IO:TID, with the number that
`weft tasks` prints in brackets. All of it works on core files."""

    def __init__(self):
        super().__init__("weft", gdb.COMMAND_STACK, gdb.COMPLETE_NONE, True)


def take_count(words):
    """Removes `-n COUNT` from the words; how many tasks to print."""
    if "-n" not in words:
        return sys.maxsize
    at = words.index("-n")
    try:
        count = int(words[at + 1])
    except (IndexError, ValueError):
        raise gdb.GdbError("weft: -n needs a number") from None
    del words[at : at + 2]
    return count


class WeftTasks(gdb.Command):
    """List all tasks: name, tid, kind, state, what it waits for, and where.

weft tasks [-n COUNT] [-flat]

-n COUNT: only the first COUNT. -flat: without scopes and indentation."""

    def __init__(self):
        super().__init__("weft tasks", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        words = gdb.string_to_argv(argument)
        limit = take_count(words)
        flat = "-flat" in words
        unknown = [w for w in words if w != "-flat"]
        if unknown:
            raise gdb.GdbError(f"weft: unknown argument {unknown[0]}; see `help weft tasks`")
        with undisturbed():
            print_tasks(limit, flat)


class WeftBacktrace(gdb.Command):
    """Print the backtrace of a task.

weft bt TID [OPTIONS OF bt]
weft bt all [-n COUNT]

A coroutine's backtrace is the chain of coroutines that wait for each other."""

    def __init__(self):
        super().__init__("weft bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        words = gdb.string_to_argv(argument)
        if not words:
            raise gdb.GdbError("weft: which task? weft bt TID, or weft bt all")
        with undisturbed():
            if words[0] == "all":
                print_tasks(take_count(words), flat=True, backtraces=True)
                return
            task = program.find_task(words[0])
            printer = Printer()
            say(printer.task(task, where=False))
            printer.backtrace(task, options=" ".join(words[1:]))


class WeftSwitch(gdb.Command):
    """Make the frames of a parked fiber the ones that up, down, frame and info locals see.

weft switch TID
weft switch off

The fiber's frames appear as the callers of the selected thread's innermost frame. Continuing the
program ends it."""

    def __init__(self):
        super().__init__("weft switch", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        words = gdb.string_to_argv(argument)
        if len(words) != 1:
            raise gdb.GdbError("weft: which task? weft switch TID, or weft switch off")
        if words[0] == "off":
            unwinder.hide()
            return
        with undisturbed():
            task = program.find_task(words[0])
        if task.state == "running" or task.kind == "thread":
            self._switch_thread(task)
            return
        if task.parked_fiber is None:
            raise gdb.GdbError(f"weft: task {words[0]} has no stack to look at: it is a {task.kind}"
                               f", {task.state}; try `weft bt {words[0]}`")
        unwinder.show(task.parked_fiber)
        unwinder.first_frame().select()
        gdb.execute("frame")

    @staticmethod
    def _switch_thread(task):
        unwinder.hide()
        thread = running_threads().get(task.address) or thread_by_stack(task)
        if thread is None:
            raise gdb.GdbError("weft: it is running, but none of the threads seems to run it")
        thread.switch()
        gdb.execute("frame")


Weft()
WeftTasks()
WeftBacktrace()
WeftSwitch()

"""What weft.py knows of a program that uses weft: its Ios, tasks, fibers and coroutines.

A million tasks are listed in a minute or so, which decides how memory is read here: whole objects
at a time, decoded with offsets that are asked for once, and not field by field as gdb values.
"""

import functools
import os
import re
import struct

import gdb

PAGE = 4096
# Functions that say nothing about where a task is, by name and by file.
OURS = re.compile(r"^(?:weft::|weft_|std::|__|main$|_ZNK?4weft|_ZNK?St|_ZSt)")
LIBRARY = re.compile(r"/weft/(?:base|stack|wait|task|time|io|sync|flow|sched|sim|journal)/|/c\+\+/")


# --- reading memory -----------------------------------------------------------------------------


def read(address, size):
    return gdb.selected_inferior().read_memory(address, size).tobytes()


def read_word(address):
    return struct.unpack("<Q", read(address, 8))[0]


def read_text(address, limit=200):
    """A C string, never reading beyond the page it ends in."""
    text = b""
    while len(text) < limit:
        chunk = read(address, min(64, PAGE - address % PAGE))
        end = chunk.find(b"\0")
        if end >= 0:
            text += chunk[:end]
            break
        text += chunk
        address += len(chunk)
    return text.decode("utf-8", "replace")


class Member:
    """A place in an object: reads its number from a copy of the object's bytes."""

    def __init__(self, offset, size):
        self.offset = offset
        self.size = size

    def __call__(self, data):
        return int.from_bytes(data[self.offset : self.offset + self.size], "little")


class Struct:
    """The layout of a class: its members and bases by name, also those of its bases."""

    def __init__(self, name):
        self.type = gdb.lookup_type(name)
        self.size = self.type.sizeof

    def member(self, *path):
        offset = 0
        kind = self.type
        for name in path:
            found = self._find(kind, name)
            if found is None:
                raise gdb.GdbError(f"weft: {self.type} has no member {'.'.join(path)}; "
                                   "weft.py belongs to another version of the library")
            offset += found[0]
            kind = found[1]
        return Member(offset, kind.sizeof)

    @classmethod
    def _find(cls, kind, name):
        for field in kind.strip_typedefs().fields():
            if not hasattr(field, "bitpos"):
                continue  # static
            if field.name == name:
                return field.bitpos // 8, field.type
            if field.is_base_class:
                inner = cls._find(field.type, name)
                if inner is not None:
                    return field.bitpos // 8 + inner[0], inner[1]
        return None


def enumerators(name):
    """The words of an enumeration, as weft's own reports spell them."""
    fields = gdb.lookup_type(name).fields()
    return {f.enumval: f.name.rsplit("::", 1)[-1].replace("_", " ") for f in fields}


class Layout:
    """All members used below. Made anew for each command: the program may have been rebuilt."""

    def __init__(self):
        try:
            self._look_up()
        except gdb.error as error:
            raise gdb.GdbError("weft: no debug information about the library's types; "
                               f"build it with -g ({error})") from None

    def _look_up(self):
        self.states = enumerators("weft::TaskState")
        self.reasons = enumerators("weft::CancelReason")
        self.flows = enumerators("weft::Wait::Flow")
        self.kinds = enumerators("weft::CancelNode::Kind")

        node = Struct("weft::CancelNode")
        self.node_size = node.size
        self.node_link = node.member("next_").offset
        self.node_first = node.member("children_", "head_", "next_")
        self.node_children = node.member("children_", "head_").offset
        self.node_cancelled = node.member("flag_", "reason_")
        self.node_kind = node.member("kind_")

        task = Struct("weft::Task")
        self.task_size = task.size
        self.task_node = task.member("weft::CancelNode").offset
        self.task_cancelled = task.member("flag_", "reason_")
        self.task_tid = task.member("tid_")
        self.task_name = task.member("name_")
        self.task_fiber = task.member("fiber_")
        self.task_resume_point = task.member("resume_point_")
        self.task_state = task.member("state_")
        self.task_arms = task.member("arms_")
        self.task_arm_count = task.member("arm_count_")
        self.task_flow = task.member("flow_")

        scope = Struct("weft::Scope")
        self.scope_size = scope.size
        self.scope_node = scope.member("weft::CancelNode").offset
        self.scope_cancelled = scope.member("flag_", "reason_")
        self.scope_id = scope.member("id_")
        self.scope_name = scope.member("name_", "_M_str")
        self.scope_name_size = scope.member("name_", "_M_len")

        fiber = Struct("weft::Fiber")
        self.fiber_size = fiber.size
        self.fiber_sp = fiber.member("strand_", "context", "sp")
        self.fiber_fp = fiber.member("strand_", "context", "fp")
        self.fiber_pc = fiber.member("strand_", "context", "pc")
        self.fiber_bottom = fiber.member("stack_", "bottom_")
        self.fiber_stack_size = fiber.member("stack_", "size_")

        arm = Struct("weft::Arm")
        self.arm_size = arm.size
        self.arm_object = arm.member("object")
        self.arm_reason = arm.member("reason", "name")

        io = Struct("weft::Io")
        self.io_root = io.member("root_").offset
        self.io_live = io.member("live_").offset
        self.current_wait = Struct("weft::Current").member("wait").offset
        self.worker_outer = Struct("weft::Worker").member("outer_").offset


# --- the program's tasks ------------------------------------------------------------------------


class Fiber:
    def __init__(self, layout, address):
        data = read(address, layout.fiber_size)
        self.sp = layout.fiber_sp(data)
        self.fp = layout.fiber_fp(data)
        self.pc = layout.fiber_pc(data)
        self.bottom = layout.fiber_bottom(data)
        self.size = layout.fiber_stack_size(data)
        self.top = self.bottom + self.size

    @property
    def started(self):
        return self.bottom <= self.sp < self.top and symbol_at(self.pc) != "weft_context_entry"


class Task:
    """A copy of what the program knows of one task."""

    def __init__(self, layout, address, io):
        data = read(address, layout.task_size)
        self.layout = layout
        self.io = io
        self.address = address
        self.tid = layout.task_tid(data)
        self.state = layout.states.get(layout.task_state(data), "?")
        self.kind = layout.flows.get(layout.task_flow(data), "?")
        self.cancelled = layout.reasons.get(layout.task_cancelled(data), "?")
        self.resume_point = layout.task_resume_point(data)
        self._name = layout.task_name(data)
        self._fiber_address = layout.task_fiber(data)
        self._arms = layout.task_arms(data)
        self._arm_count = layout.task_arm_count(data)

    @property
    def name(self):
        return read_text(self._name) if self._name else "task"

    @functools.cached_property
    def fiber(self):
        """None if it has none, or not yet."""
        return Fiber(self.layout, self._fiber_address) if self._fiber_address else None

    @property
    def parked_fiber(self):
        """The fiber, if it has left something on its stack."""
        running = self.state == "running"
        return self.fiber if self.fiber is not None and self.fiber.started and not running else None

    def waits_for(self, words):
        """What would end the wait, for example 'sleep | channel recv #7'."""
        parts = []
        for i in range(self._arm_count):
            arm = read(self._arms + i * self.layout.arm_size, self.layout.arm_size)
            word, thing = self.layout.arm_reason(arm), self.layout.arm_object(arm)
            if word not in words:
                words[word] = read_text(word)
            parts.append(words[word] + (f" #{thing}" if thing else ""))
        return " | ".join(parts)


def pool_live(pool):
    """A pool counts by worker what was spawned and what has ended."""
    worker = gdb.lookup_type("weft::PoolWorker").pointer()
    workers = pool["workers_"]["_M_impl"]
    live = int(pool["admitted_"]["word_"]["_M_i"])
    for place in range(int(workers["_M_start"]), int(workers["_M_finish"]), 8):
        counters = gdb.Value(read_word(place)).cast(worker)
        live += int(counters["spawned"]["value_"]["word_"]["_M_i"])
        live -= int(counters["ended"]["value_"]["word_"]["_M_i"])
    return live


class Io:
    def __init__(self, layout, number, address):
        self.layout = layout
        self.number = number
        self.address = address
        kind = gdb.lookup_type("weft::Io").pointer()
        dynamic = gdb.Value(address).cast(kind).dynamic_type.target()
        self.kind = str(dynamic).rsplit("::", 1)[-1].lower()
        if self.kind == "pool":
            self.live = pool_live(gdb.Value(address).cast(dynamic.pointer()))
        else:
            self.live = read_word(address + layout.io_live)

    def nodes(self):
        """(depth, kind, address) of all nodes below the root, parents first, in order."""
        layout = self.layout
        root = self.address + layout.io_root + layout.scope_node
        todo = [(1, self._children(read(root, layout.node_size), root))]
        while todo:
            depth, children = todo[-1]
            node = next(children, None)
            if node is None:
                todo.pop()
                continue
            data = read(node, layout.node_size)
            yield depth, layout.kinds.get(layout.node_kind(data), "?"), node
            if layout.node_first(data) != node + layout.node_children:
                todo.append((depth + 1, self._children(data, node)))

    def _children(self, parent, address):
        layout = self.layout
        head = address + layout.node_children
        link = layout.node_first(parent)
        while link != head:
            if link == 0:
                raise gdb.MemoryError("a list of tasks is damaged, or was being changed")
            yield link - layout.node_link
            link = read_word(link)

    def tasks(self):
        for _, kind, node in self.nodes():
            if kind == "task":
                yield Task(self.layout, node - self.layout.task_node, self)


def require_process():
    if not gdb.objfiles():
        raise gdb.GdbError("weft: no program; start gdb as `gdb PROGRAM` or `gdb PROGRAM CORE`")
    if gdb.selected_thread() is None:
        raise gdb.GdbError("weft: the program is not being run, and there is no core file")


def all_ios():
    require_process()
    try:
        table = int(gdb.parse_and_eval("(unsigned long)&weft_all_ios"))
    except gdb.error:
        raise gdb.GdbError("weft: no weft in this program (no symbol weft_all_ios)") from None
    symbol_at.cache_clear()  # of another program, or before it was started
    layout = Layout()
    addresses = [a for a in struct.unpack("<64Q", read(table, 64 * 8)) if a]
    return [Io(layout, i + 1, address) for i, address in enumerate(addresses)]


def find_task(word):
    """By tid; by io:tid where there are several Ios; or by name."""
    match = re.fullmatch(r"(?:(\d+):)?(\d+)", word)
    ios = all_ios()
    found = []
    for io in ios:
        if match and match.group(1) and int(match.group(1)) != io.number:
            continue
        for task in io.tasks():
            if task.tid == int(match.group(2)) if match else task.name == word:
                found.append(task)
                if match:
                    break
    if not found:
        raise gdb.GdbError(f"weft: no task {word}; `weft tasks` lists those that exist")
    if len(found) > 1:
        choices = ", ".join(f"{t.io.number}:{t.tid}" for t in found[:10])
        raise gdb.GdbError(f"weft: several tasks are called {word}; say which: {choices}")
    return found[0]


# --- symbols ------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=10000)
def symbol_at(address):
    """The linkage name of the function at an address, without debug information too."""
    text = gdb.execute(f"info symbol {address:#x}", to_string=True)
    if text.startswith("No symbol"):
        return ""
    return re.split(r" \+ \d+| in section ", text)[0].strip()


def demangle(name):
    try:
        return gdb.execute(f"demangle -- {name}", to_string=True).strip()
    except gdb.error:
        return name


def coroutine_name(symbol):
    """GCC calls a coroutine's body f(f(int)::_Z1fi.Frame*) [clone .actor]; we say f(int)."""
    for match in re.finditer(r"(?=(_Z\w+)\.Frame)", symbol):
        if re.search(rf"(?<!\d){len(match.group(1)) + 6}$", symbol[: match.start()]):
            return demangle(match.group(1))
        if symbol[: match.start()].endswith("::"):
            return demangle(match.group(1))
    return demangle(re.sub(r"( \[clone \.resume\]|\.resume)$", "", symbol))


def readable(text):
    """A line of gdb's backtrace: GCC's names for the bodies of coroutines become the user's."""
    return re.sub(r"[\w:~<>]+\((_Z\w+)\.Frame \*\)", lambda m: demangle(m.group(1)), text)


def user_function(name, symtab):
    """How to call a function in a report; empty if it is not the user's."""
    if name is None or OURS.match(name):
        return ""
    if name.startswith("operator()"):  # GCC does not say whose
        return "" if symtab is None or LIBRARY.search(symtab.filename) else "a lambda"
    return readable(name) if name.endswith(")") else name + "()"


def place_of(symtab, line):
    return f"{symtab.filename}:{line}" if symtab is not None and line else ""


def short(place):
    return " at " + os.path.basename(place) if place else ""


class Coroutine:
    """One suspended coroutine: a frame, which begins with the address of its code."""

    def __init__(self, frame):
        self.frame = frame
        self.code = read_word(frame)
        self.name = coroutine_name(symbol_at(self.code)) or f"{self.code:#x}"
        self.place, self.point = "", ""
        block = gdb.block_for_pc(self.code)
        function = block.function if block else None
        if function is not None:
            self.place = self._declared_at(function)
            self._read_point(function)

    def _declared_at(self, function):
        # The body is a function of the compiler's making, which has no line of its own.
        declared = gdb.lookup_global_symbol(self.name) or gdb.lookup_static_symbol(self.name)
        if declared is not None and declared.line:
            return place_of(declared.symtab, declared.line)
        sal = gdb.find_pc_line(self.code)
        same_file = sal.symtab is not None and sal.symtab.filename == function.symtab.filename
        return place_of(sal.symtab, sal.line) if same_file else function.symtab.filename

    def _read_point(self, function):
        # GCC counts suspension points by two, beginning before the body; other compilers do not
        # describe the frame.
        try:
            frame_type = function.type.fields()[0].type
            value = gdb.Value(self.frame).cast(frame_type).dereference()
            index = int(value["_Coro_resume_index"]) // 2 - 1
            self.point = f", in its co_await number {index}" if index > 0 else ", not yet started"
        except (gdb.error, IndexError):
            pass


def coroutine_chain(handle):
    """A coroutine and its callers. The promise follows two words; it begins with the caller."""
    seen = set()
    while handle and handle not in seen and len(seen) < 10000:
        seen.add(handle)
        yield Coroutine(handle)
        handle = read_word(handle + 16)

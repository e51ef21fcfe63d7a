"""Samples for tools/tidy --self-test: trees of files, and exactly what must be said of each."""

from pathlib import Path

HEADER = "// What it is for.\n#pragma once\n"
BODY = "  step();\n"


def function(lines, head="void f() {"):
    """A function of so many lines."""
    return head + "\n" + BODY * (lines - 2) + "}\n"


# name, files, expected: list of (path, line, rule, part of the message)
SAMPLES = [
    (
        "a room includes one above it",
        {"src/wait/x.cpp": "\n#include <weft/task/fiber.hpp>\n"},
        [("src/wait/x.cpp", 2, "room", "room wait may not include task (allowed: base)")],
    ),
    (
        "a private header of a room above",
        {"src/base/x.cpp": '#include "wait/y.hpp"\n', "src/wait/y.hpp": "#pragma once\n"},
        [("src/base/x.cpp", 1, "room", "room base may not include wait (allowed: none)")],
    ),
    (
        "sched and sim do not know each other",
        {
            "include/weft/sched/a.hpp": HEADER + "#include <weft/sim/b.hpp>\n",
            "include/weft/sim/b.hpp": HEADER + "#include <weft/sched/a.hpp>\n",
        },
        [
            ("include/weft/sched/a.hpp", 3, "room", "room sched may not include sim"),
            ("include/weft/sim/b.hpp", 3, "room", "room sim may not include sched"),
        ],
    ),
    (
        "the umbrella, a missing room, quotes around a public header",
        {
            "src/net/x.cpp": '#include <weft/weft.hpp>\n#include "y.hpp"\n'
            '#include "weft/net/z.hpp"\n',
            "src/attic/x.cpp": "int x;\n",
            "src/loose.cpp": "int x;\n",
        },
        [
            ("src/attic/x.cpp", 1, "room", "'attic' is not a room"),
            ("src/loose.cpp", 1, "room", "'' is not a room"),
            ("src/net/x.cpp", 1, "room", "it includes everything"),
            ("src/net/x.cpp", 2, "room", 'write "room/file.hpp"'),
            ("src/net/x.cpp", 3, "room", "include public headers as <weft/net/z.hpp>"),
        ],
    ),
    (
        "good: arrows that point down, and an include inside a comment",
        {
            "include/weft/weft.hpp": HEADER + "#include <weft/http/server.hpp>\n",
            "src/task/x.cpp": '#include <vector>\n#include "task/p.hpp"\n#include "wait/q.hpp"\n'
            "#include <weft/stack/pool.hpp>\n// #include <weft/io/fd.hpp>\n"
            "/*\n#include <weft/io/fd.hpp>\n*/\n",
            "src/task/p.hpp": "#pragma once\n",
            "src/wait/q.hpp": "#pragma once\n",
            "test/wait/x_test.cpp": "#include <weft/weft.hpp>\n",
        },
        [],
    ),
    (
        "long files and long functions",
        {
            "src/base/long.cpp": "int x;\n" * 501,
            "src/base/function.cpp": "namespace weft {\n" + function(71) + "}\n",
            "src/base/method.cpp": "struct S final : Base<int> {\n public:\n"
            + function(71, "  template <class T, int N>\n  void f(T x = {}) const noexcept {")
            + "};\n",
            "test/base/x_test.cpp": "\n" + function(71, "TEST(Suite, Name) {"),
            "src/base/branch.cpp": "#if A\nvoid f() {\n#else\nvoid f(int) {\n#endif\n"
            + BODY * 70
            + "}\n",
            "src/base/second.cpp": "const char c = '{';\nconst int n = 1'000;\n"
            'const char* s = R"(\n{ )";  // it\'s {\n' + function(71),
        },
        [
            ("src/base/branch.cpp", 4, "function_length", "function of 73 lines, at most 70"),
            ("src/base/function.cpp", 2, "function_length", "function of 71 lines, at most 70"),
            ("src/base/long.cpp", 501, "file_length", "501 lines, at most 500"),
            ("src/base/method.cpp", 3, "function_length", "function of 72 lines"),
            ("src/base/second.cpp", 5, "function_length", "function of 71 lines"),
            ("test/base/x_test.cpp", 2, "function_length", "function of 71 lines"),
        ],
    ),
    (
        "good: at the limit; classes, namespaces and tables are not functions",
        {
            "src/base/x.cpp": "int x;\n" * 430 + function(70),
            "src/base/y.cpp": "namespace a::b {\n" + function(40) * 3 + "}\n",
            "src/base/z.cpp": "class [[nodiscard]] alignas(64) C {\n" + function(40) * 2 + "};\n",
            "src/base/t.cpp": "constexpr int table[] = {\n" + "  1,\n" * 80 + "};\n",
        },
        [],
    ),
    (
        "layout",
        {"src/base/x.cpp": "//" + "x" * 99 + "\n\tint x;\nint y; \nint z;"},
        [
            ("src/base/x.cpp", 1, "columns", "101 columns, at most 100"),
            ("src/base/x.cpp", 2, "tab", "tab"),
            ("src/base/x.cpp", 3, "space", "space at the end of the line"),
            ("src/base/x.cpp", 4, "space", "no newline"),
        ],
    ),
    (
        "good: columns are characters, not bytes; an address may be long",
        {
            "src/base/x.cpp": "//" + "é" * 98 + "\n// https://" + "x" * 120 + "\n",
            "Makefile": "all:\n\ttrue\n",
        },
        [],
    ),
    (
        "time and chance",
        {
            "src/sched/x.cpp": "auto a = std::chrono::steady_clock::now();\n"
            "auto b = std::chrono::system_clock::now();\n"
            "auto c = std::chrono::high_resolution_clock::now();\n"
            "clock_gettime(CLOCK_MONOTONIC, &t);\n::gettimeofday(&t, nullptr);\n"
            "auto d = std::time(nullptr);\nauto e = time(0);\nauto f = time(NULL);\n"
            "nanosleep(&t, nullptr);\nusleep(5);\nstd::this_thread::sleep_for(d);\n"
            "std::this_thread::sleep_until(d);\nstd::random_device g;\nint h = rand();\n"
            "getrandom(buffer, 8, 0);\n::sleep(1);\nauto i = __rdtsc();\n",
            "include/weft/io/x.hpp": HEADER + "using C = std::chrono::steady_clock;\n",
            "test/wait/x_test.cpp": "void f() { std::this_thread::sleep_for(d); }\n",
        },
        [("include/weft/io/x.hpp", 3, "clock", "std::chrono::steady_clock")]
        + [("src/sched/x.cpp", line, "clock", "src/io") for line in range(1, 18)]
        + [("test/wait/x_test.cpp", 1, "clock", "sleep_for")],
    ),
    (
        "good: the kernel, the exempt folders, words in comments and strings, look-alikes",
        {
            "src/io/real.cpp": "clock_gettime(CLOCK_MONOTONIC, &t);\n",
            "test/io/x_test.cpp": "nanosleep(&t, nullptr);\n",
            "test/tools/x_prog.cpp": "usleep(5);\n",
            "bench/x_bench.cpp": "auto a = std::chrono::steady_clock::now();\n",
            "src/time/x.cpp": '// usleep(5);\nauto s = "nanosleep(";\nauto t = rng.rand();\n'
            "kernel->getrandom(b);\nweft::sleep(1);\nint operand(int);\nauto u = start_time(0);\n",
        },
        [],
    ),
    (
        "allowances: one with a reason, one without, one that allows nothing",
        {
            "src/time/x.cpp": "usleep(5);  // tidy: allow(clock) shows the mechanism\n"
            "// tidy: allow(clock) the line below\nusleep(5);\n"
            "usleep(5);  // tidy: allow(clock)\n"
            "int x;  // tidy: allow(clock) not needed\n"
            "usleep(5);  // tidy: allow(columns) another rule\n",
        },
        [
            ("src/time/x.cpp", 4, "allow", "allow(clock) needs a reason"),
            ("src/time/x.cpp", 5, "allow", "allow(clock) allows nothing"),
            ("src/time/x.cpp", 6, "allow", "allow(columns) allows nothing"),
            ("src/time/x.cpp", 6, "clock", "usleep"),
        ],
    ),
    (
        "headers",
        {
            "include/weft/base/bare.hpp": "#include <vector>\nint x;\n",
            "src/base/p.hpp": "int x;\n",
            "src/base/p.cpp": '#include "base/p.hpp"\n',
        },
        [
            ("include/weft/base/bare.hpp", 1, "header", "a public header opens with a comment"),
            ("include/weft/base/bare.hpp", 1, "header", "no #pragma once"),
            ("src/base/p.hpp", 1, "header", "no #pragma once"),
        ],
    ),
    (
        "good: the pragma above the comment",
        {"include/weft/base/x.hpp": "#pragma once\n\n/// What it is for.\nint x;\n"},
        [],
    ),
    (
        "paths of one machine",
        {
            "README.md": "see /" + "home/me/weft\n",
            "scripts/x": "cd /" + "work/main\ncd /tmp/" + "build-x\n",
            "src/base/x.cpp": '#include "/' + 'root/x.inc"\n',
        },
        [
            ("README.md", 1, "path", "path of one machine"),
            ("scripts/x", 1, "path", "path of one machine"),
            ("scripts/x", 2, "path", "path of one machine"),
            ("src/base/x.cpp", 1, "path", "path of one machine"),
            ("src/base/x.cpp", 1, "room", "room base may not include"),
        ],
    ),
    (
        "good: paths that only look like it; a build directory is not read",
        {"docs/x.md": "net/" + "work/x and ~/" + "home/y\n", "build/x.txt": "/" + "root/x\n"},
        [],
    ),
    (
        "dead headers: one that nobody includes, one that only includes itself",
        {
            "src/base/dead.hpp": "#pragma once\n",
            "src/base/self.hpp": '#pragma once\n#include "base/self.hpp"\n',
            "src/base/used.hpp": "#pragma once\n",
            "test/base/x_test.cpp": '#include "base/used.hpp"\n',
        },
        [
            ("src/base/dead.hpp", 1, "dead", "nobody includes this header"),
            ("src/base/self.hpp", 1, "dead", "nobody includes this header"),
        ],
    ),
    (
        "code in a document that is not the file it names",
        {
            "README.md": "<!-- examples/a.cpp -->\n```cpp\nint x;\n```\n"
            "<!-- examples/b.cpp -->\n```cpp\nint y;\n```\n"
            "<!-- examples/c.cpp -->\n```cpp\nint z;\n```\n",
            "examples/a.cpp": "int x;\n",
            "examples/b.cpp": "int other;\n",
        },
        [
            ("README.md", 5, "snippet", "the code differs from examples/b.cpp"),
            ("README.md", 9, "snippet", "there is no examples/c.cpp"),
        ],
    ),
]


def matches(errors, expected):
    return len(errors) == len(expected) and all(
        error[:3] == wanted[:3] and wanted[3] in error[3]
        for error, wanted in zip(sorted(errors), sorted(expected))
    )


def self_test(tidy, tempfile):
    failed = 0
    for name, files, expected in SAMPLES:
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                target = Path(root, path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
            errors = tidy(root).run()
        if not matches(errors, expected):
            failed += 1
            print(f"self-test: {name}")
            for wanted in expected:
                print(f"  expected {wanted}")
            for error in errors:
                print(f"  got      {error}")
    rules = {wanted[2] for _, _, expected in SAMPLES for wanted in expected}
    print(f"tidy: {len(SAMPLES)} samples, {len(rules)} rules, {failed} failed")
    return 1 if failed else 0

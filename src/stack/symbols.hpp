/// From a code address to the name of its function, for all functions and not only exported ones.
///
/// dladdr sees what a module exports. Static functions, lambdas and the bodies of coroutines are
/// only in .symtab, which is not loaded: it is read from the module's file, once per module, when
/// first asked for. A file that is not what was loaded (rebuilt or upgraded since) would give wrong
/// names, so its program headers and notes (which hold the build id) must equal those in memory.
/// Files are read rather than mapped: one that shrinks meanwhile must not kill the process. Where
/// there is no usable file, dladdr has the last word.
///
/// Any thread may call these, with no lock held. They never fail: the answer is just less precise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <link.h>

namespace weft::stack {

/// Empty names: unknown.
struct Place {
  std::string function;
  std::size_t function_offset = 0;  // from where the function begins
  std::string module;               // "libfoo.so"
  std::size_t module_offset = 0;    // from where the module is loaded: what addr2line takes
};

[[nodiscard]] Place find_place(std::uintptr_t address);

/// A symbol as a human would write it: demangled, without what the compiler appended to tell its
/// copies apart (.cold, .isra.0); "parse(int) [coroutine]" for the body of a coroutine.
[[nodiscard]] std::string readable_name(std::string_view symbol);

/// A file that the loader mapped, or the vdso.
struct Module {
  std::string path;  // empty if there is no file
  std::string name;
  std::uintptr_t base = 0;
  std::vector<ElfW(Phdr)> headers;
  std::vector<std::byte> notes;    // the contents of all PT_NOTE
  unsigned long long unloads = 0;  // of any module, in this process so far
};

/// The one that the address lies in.
[[nodiscard]] std::optional<Module> find_module(std::uintptr_t address);

/// The functions of one file, by address relative to where it is loaded.
class SymbolTable {
 public:
  struct Symbol {
    std::uintptr_t start;
    std::uintptr_t end;
    std::uint32_t name;  // where in names_
    bool sized;          // careless assembly does not say where a function ends
    bool local;
  };

  /// Empty if the file is gone, stripped, malformed or not the one that was loaded.
  [[nodiscard]] static SymbolTable read(const Module& module);

  /// Null if no function is known to be there.
  [[nodiscard]] const Symbol* find(std::uintptr_t offset) const noexcept;
  [[nodiscard]] std::string_view name(const Symbol& symbol) const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return symbols_.size(); }

 private:
  std::vector<Symbol> symbols_;  // sorted by start, one per start
  std::vector<char> names_;      // ends with a zero
};

}  // namespace weft::stack

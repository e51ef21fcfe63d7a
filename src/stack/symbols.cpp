#include "stack/symbols.hpp"

#include <weft/base/unique_fd.hpp>
#include <weft/stack/sanitizer.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <cxxabi.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace weft::stack {
namespace {

// --- modules ------------------------------------------------------------------------------------

struct Search {
  std::uintptr_t address;
  std::optional<Module> module = {};
};

bool covers(const ElfW(Phdr) & segment, std::uintptr_t offset, std::size_t size = 1) noexcept {
  return segment.p_type == PT_LOAD && offset >= segment.p_vaddr && size <= segment.p_memsz &&
         offset - segment.p_vaddr <= segment.p_memsz - size;
}

bool is_loaded_note(std::span<const ElfW(Phdr)> headers, const ElfW(Phdr) & note) noexcept {
  return note.p_type == PT_NOTE && std::ranges::any_of(headers, [&](const auto& segment) {
           return (segment.p_flags & PF_R) != 0 && covers(segment, note.p_vaddr, note.p_filesz);
         });
}

Module describe_module(const dl_phdr_info& info) {
  Module module;
  const std::string_view path = info.dlpi_name == nullptr ? "" : info.dlpi_name;
  // The program itself has no name here. The vdso has one without a slash, and no file.
  module.name = path.empty() ? program_invocation_short_name : path.substr(path.rfind('/') + 1);
  module.path = path.empty() ? "/proc/self/exe" : path.contains('/') ? path : "";
  module.base = info.dlpi_addr;
  module.unloads = info.dlpi_subs;
  module.headers.assign(info.dlpi_phdr, info.dlpi_phdr + info.dlpi_phnum);
  for (const auto& header : module.headers) {
    if (!is_loaded_note(module.headers, header)) continue;
    const auto* note = reinterpret_cast<const std::byte*>(module.base + header.p_vaddr);
    module.notes.insert(module.notes.end(), note, note + header.p_filesz);
  }
  return module;
}

/// Called under the loader's lock, so the module cannot go away.
int look_at_module(dl_phdr_info* info, std::size_t, void* argument) noexcept {
  auto& search = *static_cast<Search*>(argument);
  const std::uintptr_t offset = search.address - info->dlpi_addr;
  const std::span headers(info->dlpi_phdr, info->dlpi_phnum);
  if (std::ranges::none_of(headers, [&](const auto& segment) { return covers(segment, offset); })) {
    return 0;
  }
  try {
    search.module = describe_module(*info);
  } catch (const std::bad_alloc&) {
    // Then it is a module that we know nothing of.
  }
  return 1;
}

// --- files --------------------------------------------------------------------------------------

class ElfFile {
 public:
  explicit ElfFile(const std::string& path) {
    // Without O_NONBLOCK, opening a named pipe would wait for its other end.
    fd_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status{};
    if (!fd_ || ::fstat(fd_.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
    size_ = static_cast<std::uint64_t>(status.st_size);
    const auto header = array<ElfW(Ehdr)>(0, 1);
    if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0 ||
        header[0].e_ident[EI_CLASS] != ELFCLASS64) {
      return;
    }
    read_headers(header[0]);
  }

  [[nodiscard]] const std::vector<ElfW(Phdr)>& headers() const noexcept { return headers_; }
  [[nodiscard]] const std::vector<ElfW(Shdr)>& sections() const noexcept { return sections_; }

  /// Empty if the file does not have that many.
  template <class T>
  [[nodiscard]] std::vector<T> array(std::uint64_t offset, std::uint64_t count) const {
    if (offset > size_ || count > std::min(size_ - offset, max_bytes) / sizeof(T)) return {};
    std::vector<T> values(count);
    std::size_t done = 0;
    while (done < count * sizeof(T)) {
      const auto got = ::pread(fd_.get(), reinterpret_cast<std::byte*>(values.data()) + done,
                               count * sizeof(T) - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return {};
      done += static_cast<std::size_t>(got);
    }
    return values;
  }

 private:
  static constexpr std::uint64_t max_bytes = std::uint64_t{1} << 30;

  void read_headers(const ElfW(Ehdr) & header) {
    if (header.e_phentsize == sizeof(ElfW(Phdr))) {
      headers_ = array<ElfW(Phdr)>(header.e_phoff, header.e_phnum);
    }
    if (header.e_shentsize != sizeof(ElfW(Shdr)) || header.e_shoff == 0) return;
    std::uint64_t count = header.e_shnum;
    if (count == 0) {  // too many for 16 bits: then the first section has the number
      const auto first = array<ElfW(Shdr)>(header.e_shoff, 1);
      if (!first.empty()) count = first[0].sh_size;
    }
    sections_ = array<ElfW(Shdr)>(header.e_shoff, count);
  }

  UniqueFd fd_;
  std::uint64_t size_ = 0;
  std::vector<ElfW(Phdr)> headers_;
  std::vector<ElfW(Shdr)> sections_;
};

bool is_what_was_loaded(const ElfFile& file, const Module& module) {
  const auto& headers = file.headers();
  if (headers.size() != module.headers.size() ||
      std::memcmp(headers.data(), module.headers.data(), headers.size() * sizeof headers[0]) != 0) {
    return false;
  }
  std::vector<std::byte> notes;
  for (const auto& header : headers) {
    if (!is_loaded_note(headers, header)) continue;
    const auto note = file.array<std::byte>(header.p_offset, header.p_filesz);
    notes.insert(notes.end(), note.begin(), note.end());
  }
  return notes == module.notes;
}

using Symbol = SymbolTable::Symbol;

/// .symtab, or else .dynsym, or else null.
const ElfW(Shdr) * symbol_section(const ElfFile& file) noexcept {
  const auto& sections = file.sections();
  for (const unsigned type : {unsigned{SHT_SYMTAB}, unsigned{SHT_DYNSYM}}) {
    const auto found = std::ranges::find(sections, type, &ElfW(Shdr)::sh_type);
    if (found != sections.end() && found->sh_link < sections.size()) return &*found;
  }
  return nullptr;
}

std::vector<Symbol> functions_of(const ElfFile& file, const ElfW(Shdr) & section) {
  const auto& sections = file.sections();
  std::vector<Symbol> functions;
  const auto count = section.sh_size / sizeof(ElfW(Sym));
  for (const auto& symbol : file.array<ElfW(Sym)>(section.sh_offset, count)) {
    const auto type = ELF64_ST_TYPE(symbol.st_info);
    if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF) continue;
    Symbol function{.start = symbol.st_value,
                    .end = symbol.st_value + symbol.st_size,
                    .name = symbol.st_name,
                    .sized = symbol.st_size != 0,
                    .local = ELF64_ST_BIND(symbol.st_info) == STB_LOCAL};
    if (!function.sized && symbol.st_shndx < sections.size()) {
      const auto& home = sections[symbol.st_shndx];
      function.end = home.sh_addr + home.sh_size;
    }
    if (function.end > function.start) functions.push_back(function);
  }
  return functions;
}

/// Sorts by start and leaves one function per start. One without a size ends where the next begins.
void sort_out(std::vector<Symbol>& functions) {
  std::ranges::sort(functions, {}, [](const Symbol& symbol) {
    return std::tuple(symbol.start, !symbol.sized, symbol.local, ~symbol.end, symbol.name);
  });
  const auto repeated = std::ranges::unique(functions, {}, &Symbol::start);
  functions.erase(repeated.begin(), repeated.end());
  for (std::size_t i = 0; i + 1 < functions.size(); ++i) {
    auto& function = functions[i];
    if (!function.sized) function.end = std::min(function.end, functions[i + 1].start);
  }
}

// --- names --------------------------------------------------------------------------------------

/// Empty if it is not a mangled name.
std::string demangle(const std::string& mangled) {
  // On a stack of its own: the demangler keeps its work there, 64 bytes and more for each character
  // of the name, which is too much for a fiber.
  std::unique_ptr<char, decltype(&std::free)> text(nullptr, &std::free);
  const auto work = [&]() noexcept {
    text.reset(abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, nullptr));
  };
  constexpr std::size_t short_enough = 256;
  try {
    if (!races_matter()) {
      std::thread(work).join();
    } else if (mangled.size() <= short_enough) {
      work();  // aside, a thread could not be told from a race
    }
  } catch (const std::system_error&) {
    // No thread to be had: a mangled name is better than none.
  }
  return text ? std::string(text.get()) : std::string();
}

/// GCC calls the body of a coroutine after the type of its frame, and that after the coroutine:
/// _Z5parsePZ5parseiE14_Z5parsei.Frame.actor. Returns the last (_Z5parsei) if there is one.
std::string_view coroutine_of_frame(std::string_view symbol) noexcept {
  constexpr std::string_view tag = ".Frame";
  const auto frame = symbol.find(tag);
  if (frame == std::string_view::npos) return {};
  for (std::size_t at = symbol.find("_Z", 1); at < frame; at = symbol.find("_Z", at + 1)) {
    // Identifiers are mangled with their length in front.
    const auto length = std::to_string(frame + tag.size() - at);
    if (symbol.substr(0, at).ends_with(length)) return symbol.substr(at, frame - at);
  }
  return {};
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// --- what is remembered -------------------------------------------------------------------------

struct Known {
  std::mutex mutex;                                    // guards all below
  std::map<std::string, SymbolTable> tables;           // by path
  std::unordered_map<std::string, std::string> names;  // symbol to readable
  unsigned long long unloads = 0;

  const SymbolTable& table_of(const Module& module) {
    const auto found = tables.find(module.path);
    return found != tables.end()
               ? found->second
               : tables.emplace(module.path, SymbolTable::read(module)).first->second;
  }
  const std::string& name_of(std::string_view symbol) {
    const auto [entry, is_new] = names.try_emplace(std::string(symbol));
    if (is_new) entry->second = readable_name(symbol);
    return entry->second;
  }
};

Known& known() {
  static Known& instance = *new Known;  // stays for reports that are made while the process exits
  return instance;
}

}  // namespace

std::string readable_name(std::string_view symbol) {
  symbol = symbol.substr(0, symbol.find('@'));  // a version
  const auto coroutine = coroutine_of_frame(symbol);
  const auto plain = coroutine.empty() ? symbol.substr(0, symbol.find('.', 1)) : coroutine;
  // What compilers append comes after the first dot, which mangled names have none of.
  const auto appended = symbol.substr(std::min(symbol.size(), symbol.find('.', 1)));

  std::string name(plain);
  if (name.starts_with("_Z")) {
    auto readable = demangle(name);
    if (!readable.empty()) name = std::move(readable);
  }
  replace_all(name,
              "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >",
              "std::string");
  replace_all(name, "std::basic_string_view<char, std::char_traits<char> >", "std::string_view");
  replace_all(name, "std::__cxx11::", "std::");
  replace_all(name, "[abi:cxx11]", "");
  // GCC calls them actor and destroy; clang resume, destroy and cleanup.
  if (appended.contains(".actor") || appended.contains(".resume")) {
    name += " [coroutine]";
  } else if (appended.contains(".destroy") || appended.contains(".cleanup")) {
    name += " [coroutine, destroyed]";
  }
  return name;
}

std::optional<Module> find_module(std::uintptr_t address) {
  Search search{.address = address};
  ::dl_iterate_phdr(&look_at_module, &search);
  return std::move(search.module);
}

SymbolTable SymbolTable::read(const Module& module) {
  SymbolTable table;
  if (module.path.empty()) return table;
  try {
    const ElfFile file(module.path);
    if (!is_what_was_loaded(file, module)) return table;
    const auto* section = symbol_section(file);
    if (section == nullptr) return table;
    const auto& strings = file.sections()[section->sh_link];
    table.names_ = file.array<char>(strings.sh_offset, strings.sh_size);
    table.names_.push_back('\0');
    table.symbols_ = functions_of(file, *section);
    std::erase_if(table.symbols_, [&](const Symbol& symbol) {
      return symbol.name >= table.names_.size() || table.name(symbol).empty();
    });
    sort_out(table.symbols_);
  } catch (const std::bad_alloc&) {
    return {};
  }
  return table;
}

const SymbolTable::Symbol* SymbolTable::find(std::uintptr_t offset) const noexcept {
  auto after = std::ranges::upper_bound(symbols_, offset, {}, &Symbol::start);
  // A function may contain another one (an entry point in assembly), so look a little further back.
  for (int tries = 0; tries < 16 && after != symbols_.begin(); ++tries) {
    --after;
    if (offset < after->end) return &*after;
  }
  return nullptr;
}

std::string_view SymbolTable::name(const Symbol& symbol) const noexcept {
  return names_.data() + symbol.name;
}

Place find_place(std::uintptr_t address) {
  Place place;
  auto& memory = known();
  const std::lock_guard lock(memory.mutex);
  if (const auto module = find_module(address)) {
    // Something was unloaded: another file may come to have its path.
    if (std::exchange(memory.unloads, module->unloads) != module->unloads) memory.tables.clear();
    place.module = module->name;
    place.module_offset = address - module->base;
    const auto& table = memory.table_of(*module);
    if (const auto* symbol = table.find(place.module_offset)) {
      place.function = memory.name_of(table.name(*symbol));
      place.function_offset = place.module_offset - symbol->start;
      return place;
    }
  }
  Dl_info exported{};
  if (::dladdr(reinterpret_cast<void*>(address), &exported) != 0 && exported.dli_sname != nullptr) {
    place.function = memory.name_of(exported.dli_sname);
    place.function_offset = address - reinterpret_cast<std::uintptr_t>(exported.dli_saddr);
  }
  return place;
}

}  // namespace weft::stack

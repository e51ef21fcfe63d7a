#include "stack/symbols.hpp"

#include <weft/stack/backtrace.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace weft::stack {
namespace {

int some_data = 0;

[[gnu::noinline]] static int some_function(int value) {
  some_data += value;
  return some_data;
}

TEST(Symbols, NamesFunctionsAndPlacesInThem) {
  const auto entry = reinterpret_cast<std::uintptr_t>(&some_function);
  EXPECT_TRUE(describe_function(reinterpret_cast<void*>(entry)).ends_with("some_function(int)"));
  EXPECT_TRUE(
      describe_address(reinterpret_cast<void*>(entry + 1)).ends_with("some_function(int)+0x1"));
}

TEST(Symbols, NamesWhatLibrariesExport) {
  void* function = ::dlsym(RTLD_DEFAULT, "getppid");
  if (function == nullptr) GTEST_SKIP() << "linked statically";
  EXPECT_TRUE(describe_function(function).contains("getppid")) << describe_function(function);
}

TEST(Symbols, AlwaysSaysSomething) {
  EXPECT_EQ(describe_address(nullptr), "0x0");
  EXPECT_EQ(describe_address(reinterpret_cast<void*>(0x10)), "0x10");
  EXPECT_EQ(describe_address(reinterpret_cast<void*>(~std::uintptr_t{0})), "0xffffffffffffffff");
  EXPECT_TRUE(describe_address(&some_data).contains("+0x"));  // data: module and offset
  int local = 0;
  EXPECT_TRUE(describe_address(&local).starts_with("0x"));
  if (const auto vdso = ::getauxval(AT_SYSINFO_EHDR)) {
    const auto line = describe_address(reinterpret_cast<void*>(vdso + 1));
    EXPECT_TRUE(line.contains("vdso") || line.starts_with("0x")) << line;
  }
}

TEST(Symbols, NamesAreReadable) {
  const auto expect = [](std::string_view symbol, std::string_view readable) {
    EXPECT_EQ(readable_name(symbol), readable) << symbol;
  };
  expect("main", "main");
  expect("_Z5parsei", "parse(int)");
  expect("_ZL5parsei.isra.0", "parse(int)");
  expect("_Z5parsei.constprop.0.cold", "parse(int)");
  expect("memcpy.part.0", "memcpy");
  expect("getenv@@GLIBC_2.2.5", "getenv");
  expect("_Z5parseRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
         "parse(std::string const&)");
  expect("_Z5parseSt17basic_string_viewIcSt11char_traitsIcEE", "parse(std::string_view)");
  expect("_Z5parseB5cxx11v", "parse()");
  expect("_ZN1n8free_ZapEi.resume", "n::free_Zap(int) [coroutine]");
  expect("_ZN1n8free_ZapEi.destroy", "n::free_Zap(int) [coroutine, destroyed]");
  expect("_ZN1n8free_ZapEi.cleanup.llvm.1", "n::free_Zap(int) [coroutine, destroyed]");
  expect("_ZN1n8free_ZapEPZNS_8free_ZapEiE22_ZN1n8free_ZapEi.Frame.actor",
         "n::free_Zap(int) [coroutine]");
  expect("_Z5localPZL5localiE16_ZL5locali.Frame.destroy.cold", "local(int) [coroutine, destroyed]");
  expect("_Zwhat?", "_Zwhat?");
  expect("_Z", "_Z");
  expect(".hidden", ".hidden");
  expect(".", ".");
  expect("", "");
  expect("x.Frame", "x");
  expect("_Z.Frame.Frame_Z.Frame", "_Z");
}

/// A copy of this program's file that can be damaged.
class Copy {
 public:
  Copy() : module_(*find_module(reinterpret_cast<std::uintptr_t>(&some_function))) {
    const int fd = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    bytes_.resize(static_cast<std::size_t>(::lseek(fd, 0, SEEK_END)));
    EXPECT_EQ(::pread(fd, bytes_.data(), bytes_.size(), 0), static_cast<ssize_t>(bytes_.size()));
    ::close(fd);
  }

  [[nodiscard]] ElfW(Ehdr) & header() { return *reinterpret_cast<ElfW(Ehdr)*>(bytes_.data()); }
  [[nodiscard]] std::span<ElfW(Shdr)> sections() {
    return {reinterpret_cast<ElfW(Shdr)*>(bytes_.data() + header().e_shoff), header().e_shnum};
  }
  [[nodiscard]] ElfW(Shdr) & symtab() {
    return *std::ranges::find(sections(), ElfW(Word){SHT_SYMTAB}, &ElfW(Shdr)::sh_type);
  }
  [[nodiscard]] Module& module() { return module_; }
  [[nodiscard]] std::vector<char>& bytes() { return bytes_; }

  /// Does the table know where some_function is?
  [[nodiscard]] bool works() {
    const int fd = ::memfd_create("copy", MFD_CLOEXEC);
    EXPECT_EQ(::write(fd, bytes_.data(), bytes_.size()), static_cast<ssize_t>(bytes_.size()));
    module_.path = "/proc/self/fd/" + std::to_string(fd);
    const auto table = SymbolTable::read(module_);
    ::close(fd);
    for (std::size_t i = 0; i < 1000; ++i) (void)table.find(i * 97);
    const auto* found = table.find(reinterpret_cast<std::uintptr_t>(&some_function) - module_.base);
    return found != nullptr && table.name(*found).contains("some_function");
  }

 private:
  Module module_;
  std::vector<char> bytes_;
};

template <class Damage>
bool works_after(Damage damage) {
  Copy copy;
  damage(copy);
  return copy.works();
}

TEST(Symbols, ReadsDamagedFiles) {
  EXPECT_TRUE(works_after([](Copy&) {}));
  EXPECT_FALSE(works_after([](Copy& copy) { copy.bytes().clear(); }));
  EXPECT_FALSE(works_after([](Copy& copy) { copy.header().e_ident[0] = 'x'; }));
  EXPECT_FALSE(works_after([](Copy& copy) { copy.header().e_ident[EI_CLASS] = ELFCLASS32; }));
  EXPECT_FALSE(works_after([](Copy& copy) { copy.header().e_shoff = 0; }));
  EXPECT_FALSE(works_after([](Copy& copy) { copy.header().e_shoff = ~0ul; }));
  EXPECT_FALSE(works_after([](Copy& copy) { copy.header().e_shoff = copy.bytes().size() - 8; }));
  EXPECT_FALSE(works_after([](Copy& copy) { copy.header().e_shentsize = 1; }));
  EXPECT_FALSE(works_after([](Copy& copy) { copy.header().e_shnum = 1; }));
  EXPECT_FALSE(works_after([](Copy& copy) { copy.header().e_phnum = 0; }));
  EXPECT_FALSE(works_after([](Copy& copy) { copy.symtab().sh_link = 0x7fffffff; }));
  EXPECT_FALSE(works_after([](Copy& copy) { copy.symtab().sh_link = 0; }));
  EXPECT_FALSE(works_after([](Copy& copy) { copy.symtab().sh_offset = ~0ul - 7; }));
  EXPECT_FALSE(works_after([](Copy& copy) { copy.symtab().sh_size = ~0ul - 7; }));
  EXPECT_FALSE(works_after([](Copy& copy) { copy.symtab().sh_size = 0; }));
  EXPECT_FALSE(works_after([](Copy& copy) { copy.sections()[copy.symtab().sh_link].sh_size = 1; }));
  // More sections than 16 bits can count are counted elsewhere.
  EXPECT_TRUE(works_after([](Copy& copy) {
    copy.sections()[0].sh_size = copy.header().e_shnum;
    copy.header().e_shnum = 0;
  }));
  for (std::size_t part = 1; part < 16; ++part) {
    EXPECT_FALSE(
        works_after([part](Copy& copy) { copy.bytes().resize(copy.bytes().size() * part / 16); }));
  }
}

TEST(Symbols, IgnoresAFileThatIsNotWhatWasLoaded) {
  EXPECT_FALSE(works_after([](Copy& copy) { copy.module().headers.back().p_align ^= 1; }));
  Copy copy;
  if (copy.module().notes.empty()) GTEST_SKIP() << "built without notes";
  copy.module().notes.back() ^= std::byte{1};
  EXPECT_FALSE(copy.works());
}

}  // namespace
}  // namespace weft::stack

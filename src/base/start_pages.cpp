#include "base/start_pages.hpp"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace banyan {
namespace {

bool is_traced() {
  std::ifstream status("/proc/self/status");
  for (std::string key, value; status >> key && std::getline(status, value);)
    if (key == "TracerPid:") return value.find_first_not_of(" \t0") != std::string::npos;
  return true;  // unknown
}

/// Relocations in pages that are only read would be lost.
bool writes_text(const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry)
      if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL) != 0))
        return true;
  }
  return false;
}

int give_back_object(dl_phdr_info* object, std::size_t, void*) {
  if (writes_text(*object)) return 0;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_W) != 0) continue;
    const std::uintptr_t begin = (object->dlpi_addr + part.p_vaddr) / page * page;
    const std::uintptr_t end = object->dlpi_addr + part.p_vaddr + part.p_filesz;
    ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // advice only
  }
  return 0;
}

}  // namespace

void give_back_start_pages() {
  if (!is_traced()) dl_iterate_phdr(give_back_object, nullptr);
}

}  // namespace banyan

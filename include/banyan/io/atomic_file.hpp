// Files that are either whole or not there: a crash, a kill or a full disk leaves the earlier file as it was.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace banyan::io {

/// Writes `<path>.tmp.<pid>` in the same folder; commit() syncs it, renames it over `path` and syncs the
/// folder. Without commit(), and after any failure, the temporary file is removed and `path` is untouched.
/// Failures throw runtime_failure with the path and the system's reason. Not for use by several threads at
/// once.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, std::size_t size);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  /// Makes the file appear under its name; nothing can be written afterwards.
  void commit();

  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail(const std::string& doing, int error);
  void discard() noexcept;

  std::string path_;
  std::string temporary_;
  int fd_ = -1;
};

/// Writes `bytes` to `path` through an AtomicFile.
void write_file(const std::string& path, std::string_view bytes);

/// The whole of a file. Throws bad_input if it is missing, a folder, unreadable or longer than `max_bytes`.
std::string read_file(const std::string& path, std::size_t max_bytes);

}  // namespace banyan::io

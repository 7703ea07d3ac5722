// Zip archives in memory: names and contents, stored or deflated.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/io/atomic_file.hpp"

namespace banyan::io {

struct ZipMember {
  std::string name;
  int method = 0;           ///< 0: stored, 8: deflated
  std::uint32_t crc = 0;    ///< of the contents
  std::uint64_t size = 0;   ///< of the contents
  std::string_view stored;  ///< in the archive
  std::uint64_t begin = 0;  ///< of the member in the archive
};

/// In the order of the directory. Throws bad_input naming `origin` unless every member lies inside the
/// archive and none overlap.
std::vector<ZipMember> read_zip(std::string_view bytes, const std::string& origin);
/// The contents of a member; throws bad_input unless size and checksum are right.
std::string contents_of(const ZipMember& member, const std::string& origin);

/// Writes members one after the other, uncompressed, then the directory.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}
  /// Throws runtime_failure if the archive would be longer than 4 GiB.
  void add(const std::string& name, std::string_view contents);
  void finish();

 private:
  void write(const std::string& bytes);

  AtomicFile& file_;
  std::uint64_t at_ = 0;
  std::size_t members_ = 0;
  std::string directory_;
};

}  // namespace banyan::io

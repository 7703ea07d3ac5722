#include "banyan/data/idx.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan::data {

namespace {

/// zlib reads a file that is not gzipped as is.
class GzipFile {
 public:
  explicit GzipFile(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb"), gzclose) {
    if (!file_) bad_input("cannot open ", banyan::quoted(path), ": ", std::strerror(errno));
  }
  void read(void* to, std::size_t bytes, const char* what) {
    auto* at = static_cast<char*>(to);
    std::size_t done = 0;
    while (done < bytes) {
      constexpr std::size_t kPiece = std::size_t{1} << 30;
      const int got = gzread(file_.get(), at + done, static_cast<unsigned>(std::min(bytes - done, kPiece)));
      int error = Z_OK;
      const char* message = gzerror(file_.get(), &error);
      if (got < 0 || (error != Z_OK && error != Z_BUF_ERROR))
        bad_input(banyan::quoted(path_), ": cannot read ", what, ": ",
                  error == Z_ERRNO ? std::strerror(errno) : message);
      if (got == 0)
        bad_input(banyan::quoted(path_), " is truncated: expected ", bytes, " bytes of ", what, ", found ",
                  done);
      done += static_cast<std::size_t>(got);
    }
  }
  /// Grows `to` as bytes are read: a header may promise more than the file or memory holds.
  void read_all(std::vector<std::uint8_t>& to, std::size_t bytes, const char* what) {
    constexpr std::size_t kPiece = std::size_t{16} << 20;
    while (to.size() < bytes) {
      const std::size_t before = to.size(), piece = std::min(bytes - before, kPiece);
      to.resize(before + piece);
      read(to.data() + before, piece, what);
    }
  }
  std::uint32_t big_endian(const char* what) {
    unsigned char b[4];
    read(b, sizeof b, what);
    return static_cast<std::uint32_t>(b[0]) << 24 | static_cast<std::uint32_t>(b[1]) << 16 |
           static_cast<std::uint32_t>(b[2]) << 8 | b[3];
  }
  void expect_end() {
    char extra;
    if (gzread(file_.get(), &extra, 1) > 0)
      bad_input(banyan::quoted(path_), " has more bytes than its header says");
  }
  void expect_magic(std::uint32_t expected, const char* what) {
    const std::uint32_t found = big_endian("the magic number");
    if (found != expected)
      bad_input(banyan::quoted(path_), ": expected the magic number ", expected, " of an idx file of ", what,
                ", found ", found);
  }

 private:
  std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

}  // namespace

IdxImages read_idx_images(const std::string& path) {
  GzipFile file(path);
  file.expect_magic(2051, "images");
  const std::uint32_t count = file.big_endian("the number of images");
  const std::uint32_t height = file.big_endian("the height"), width = file.big_endian("the width");
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 33;
  if (count > INT32_MAX || height < 1 || width < 1 || height > 4096 || width > 4096 ||
      std::uint64_t{count} * height * width > kMostBytes)
    bad_input(banyan::quoted(path), ": impossible size ", count, " x ", height, " x ", width);
  IdxImages images;
  images.count = static_cast<int>(count);
  images.height = static_cast<int>(height);
  images.width = static_cast<int>(width);
  file.read_all(images.pixels, std::size_t{count} * height * width, "pixels");
  file.expect_end();
  return images;
}

std::vector<std::uint8_t> read_idx_labels(const std::string& path) {
  GzipFile file(path);
  file.expect_magic(2049, "labels");
  const std::uint32_t count = file.big_endian("the number of labels");
  if (count > INT32_MAX) bad_input(banyan::quoted(path), ": impossible number of labels ", count);
  std::vector<std::uint8_t> labels;
  file.read_all(labels, count, "labels");
  file.expect_end();
  return labels;
}

}  // namespace banyan::data

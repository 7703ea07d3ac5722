#include "banyan/io/atomic_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan::io {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Closes the descriptor when the scope is left.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

constexpr const char* kTemporary = ".tmp.";
constexpr std::size_t kChecksumPiece = std::size_t{1} << 20;

/// Clock ticks from the machine's start to this process's: the 22nd word of its stat, whose second word, the
/// program's name in parentheses, may contain blanks. Another process with the same ID has a different one.
std::string process_start() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::istringstream words(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string word;
  for (int number = 3; number <= 22; ++number) words >> word;
  return words ? word : "0";
}

std::uint32_t add_to_checksum(std::uint32_t checksum, const char* bytes, std::size_t size) {
  return static_cast<std::uint32_t>(::crc32_z(checksum, reinterpret_cast<const Bytef*>(bytes), size));
}

/// Devices, pipes and sockets; and links into /proc, such as /dev/stdout, which name what is open already.
bool stays_where_it_is(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return true;
  std::error_code none;
  const std::filesystem::path target = std::filesystem::read_symlink(path, none);
  return !none && target.string().starts_with("/proc/");
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path, std::function<void()> beat)
    : path_(path),
      temporary_(cat(path, kTemporary, ::getpid(), ".", process_start())),
      beat_(std::move(beat)),
      in_place_(stays_where_it_is(path)) {
  if (in_place_) {
    open_in_place();
    return;
  }
  while (!open()) {
  }
}

/// False if another process cleaned the file up before it was locked.
bool AtomicFile::open() {
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  // Nothing was created, so there is nothing to remove.
  if (fd_ < 0)
    runtime_failure("cannot write ", quoted(path_, 4096), ": ", reason(errno), " (creating ",
                    quoted(temporary_, 4096), ")");
  // On a file system without locks no process can take one, so none removes the file.
  while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
  }
  struct stat info {};
  if (::fstat(fd_, &info) == 0 && info.st_nlink > 0) return true;
  ::close(std::exchange(fd_, -1));
  return false;
}

void AtomicFile::open_in_place() {
  temporary_.clear();
  // Appending: what was printed there before stays.
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd_ < 0) runtime_failure("cannot open ", quoted(path_, 4096), ": ", reason(errno));
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::write(const void* bytes, std::size_t size) {
  if (fd_ < 0 || complete_) runtime_failure("writing to ", quoted(path_, 4096), " after it was completed");
  // Pieces that a slow disk can write within seconds; Linux writes at most 2 GiB - 4 KiB in one call.
  constexpr std::size_t kLargestWrite = std::size_t{1} << 26;
  const char* next = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = ::write(fd_, next, std::min(size, kLargestWrite));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("write", errno);
    }
    if (written == 0) fail("write", ENOSPC);
    checksum_ = add_to_checksum(checksum_, next, static_cast<std::size_t>(written));
    next += written;
    size -= static_cast<std::size_t>(written);
    if (beat_) beat_();
  }
}

/// 0, or the error. No system call reports a sync's progress, so a thread waits for it.
int AtomicFile::sync(int fd) const try {
  const auto call = [fd] { return ::fsync(fd) == 0 ? 0 : errno; };
  if (!beat_) return call();
  using namespace std::chrono_literals;
  const auto until = std::chrono::steady_clock::now() + 10min;
  std::future<int> error = std::async(std::launch::async, call);
  while (error.wait_for(100ms) != std::future_status::ready)
    if (std::chrono::steady_clock::now() < until) beat_();
  return error.get();
} catch (const std::system_error& no_thread) {
  return no_thread.code().value();
}

void AtomicFile::complete() {
  if (fd_ < 0) runtime_failure("completing ", quoted(path_, 4096), " after it was committed");
  // Pipes and most devices have nothing to sync.
  if (const int error = sync(fd_); error != 0 && !(in_place_ && error == EINVAL)) fail("sync", error);
  complete_ = true;
}

void AtomicFile::commit() {
  if (!complete_ || fd_ < 0) complete();
  if (in_place_) {
    ::close(std::exchange(fd_, -1));
    return;
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename", errno);
  temporary_.clear();
  ::close(std::exchange(fd_, -1));  // synced: nothing is left that could fail here
  const Descriptor folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A folder with write but no read access, or a file system without folder syncs, is no reason to fail.
  const int error = folder.get() >= 0 ? sync(folder.get()) : 0;
  if (error != 0 && error != EINVAL && error != EROFS)
    runtime_failure("cannot sync the folder of ", quoted(path_, 4096), ": ", reason(error));
}

void AtomicFile::fail(const std::string& doing, int error) {
  discard();
  runtime_failure("cannot ", doing, " ", quoted(path_, 4096), ": ", reason(error),
                  in_place_ ? "" : "; a file of that name is as it was before");
}

void AtomicFile::discard() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

std::string name_of_temporary(const std::string& name) {
  const std::size_t at = name.rfind(kTemporary);
  if (at == std::string::npos || at == 0) return "";
  const std::string_view writer = std::string_view(name).substr(at + std::string_view(kTemporary).size());
  const std::size_t dot = writer.find('.');
  if (dot == std::string_view::npos || !all_digits(writer.substr(0, dot)) ||
      !all_digits(writer.substr(dot + 1)))
    return "";
  return name.substr(0, at);
}

bool remove_abandoned(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat opened {
  }, named{};
  if (file.get() < 0 || ::fstat(file.get(), &opened) != 0 || !S_ISREG(opened.st_mode)) return false;
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
  // The writer may have committed before the lock was taken, and its next file has the same temporary name.
  if (::lstat(path.c_str(), &named) != 0 || named.st_dev != opened.st_dev || named.st_ino != opened.st_ino)
    return false;
  return ::unlink(path.c_str()) == 0;
}

void write_file(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

std::string read_file(const std::string& path, std::size_t max_bytes) {
  if (path.empty()) bad_input("a file without a name cannot be opened");
  const std::string shown = quoted(path, 4096);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) bad_input("cannot open ", shown, ": ", reason(errno));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) bad_input("cannot read ", shown, ": ", reason(errno));
  if (S_ISDIR(info.st_mode)) bad_input("cannot read ", shown, ": expected a file, found a folder");
  const auto too_large = [&] {
    bad_input(shown, " is too large: at most ", max_bytes, " bytes can be read");
  };
  const auto announced = static_cast<std::size_t>(std::max<off_t>(info.st_size, 0));
  if (announced > max_bytes) too_large();

  // The announced size is only a hint: pipes announce 0, and a file may grow or shrink meanwhile.
  std::string content;
  std::size_t size = 0;
  content.resize(announced + 1);
  while (true) {
    if (size == content.size()) content.resize(std::max<std::size_t>(size * 2, 4096));
    const ssize_t got = ::read(file.get(), content.data() + size,
                               std::min<std::size_t>(content.size() - size, std::size_t{1} << 30));
    if (got < 0) {
      if (errno == EINTR) continue;
      bad_input("cannot read ", shown, ": ", reason(errno));
    }
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
    if (size > max_bytes) too_large();
  }
  content.resize(size);
  return content;
}

std::uint32_t checksum_of(std::string_view bytes) { return add_to_checksum(0, bytes.data(), bytes.size()); }

std::uint32_t checksum_of_file(const std::string& path) {
  const std::string shown = quoted(path, 4096);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) bad_input("cannot open ", shown, ": ", reason(errno));
  std::vector<char> piece(kChecksumPiece);
  std::uint32_t checksum = 0;
  while (true) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got == 0) return checksum;
    if (got > 0)
      checksum = add_to_checksum(checksum, piece.data(), static_cast<std::size_t>(got));
    else if (errno != EINTR)
      bad_input("cannot read ", shown, ": ", reason(errno));
  }
}

}  // namespace banyan::io

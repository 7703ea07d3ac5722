#include "data/new_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"

namespace banyan::data {

namespace fs = std::filesystem;

namespace {

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

/// Names of the folders that this process is writing.
class Claims {
 public:
  bool take(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return names_.insert(name).second;
  }
  void give_back(const std::string& name) {
    const std::lock_guard lock(mutex_);
    names_.erase(name);
  }

 private:
  std::mutex mutex_;
  std::set<std::string> names_;
};
Claims& claims() {
  static Claims instance;
  return instance;
}

std::string key_of(const std::string& path) {
  std::error_code error;
  return fs::weakly_canonical(fs::absolute(path, error), error).string();
}

bool holds_only(const std::string& path, const std::function<bool(const std::string&)>& belongs) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return false;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (!belongs(entry.path().filename())) return false;
  return !error;
}

}  // namespace

NewFolder::NewFolder(const std::string& path, bool overwrite, const std::string& kind,
                     const std::function<bool(const std::string&)>& belongs)
    : path_(without_slashes(path)), temporary_(cat(path_, ".tmp.", getpid())), overwrite_(overwrite) {
  std::error_code error;
  if (fs::exists(path_, error)) {
    if (!overwrite_) bad_input(banyan::quoted(path_), " exists; remove it, or pass --overwrite");
    if (!holds_only(path_, belongs))
      bad_input(banyan::quoted(path_), " is not ", kind, " folder and will not be overwritten");
  }
  const fs::path parent = fs::path(path_).parent_path();
  if (!parent.empty() && !fs::is_directory(parent, error))
    bad_input("cannot create ", banyan::quoted(path_), ": there is no folder ",
              banyan::quoted(parent.string()));
  claim_ = key_of(temporary_);
  if (!claims().take(claim_))
    bad_input(banyan::quoted(path_), " is being written already: it is named twice");
  try {
    remove_abandoned(belongs);
    make_temporary();
  } catch (...) {
    claims().give_back(claim_);
    throw;
  }
}

void NewFolder::remove_abandoned(const std::function<bool(const std::string&)>& belongs) const {
  const fs::path path(path_);
  const std::string begin = path.filename().string() + ".tmp.";
  std::error_code error;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(path.has_parent_path() ? path.parent_path() : ".", error)) {
    const std::string name = entry.path().filename();
    if (name.size() > begin.size() && name.starts_with(begin) &&
        name.find_first_not_of("0123456789", begin.size()) == std::string::npos)
      found.push_back(entry.path());
  }
  for (const fs::path& folder : found) {
    const int lock = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (lock < 0) continue;
    if (::flock(lock, LOCK_EX | LOCK_NB) == 0 && holds_only(folder, belongs)) {
      fs::remove_all(folder, error);
      log_info(cat("Removed ", banyan::quoted(folder.string()), ", which a killed process left behind"));
    }
    ::close(lock);
  }
}

void NewFolder::make_temporary() {
  while (true) {
    std::error_code error;
    fs::remove_all(temporary_, error);
    if (!fs::create_directory(temporary_, error))
      runtime_failure("cannot create the folder ", banyan::quoted(temporary_), ": ", error.message());
    lock_ = ::open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (lock_ < 0 || ::flock(lock_, LOCK_EX) != 0)
      return;  // a file system without locks: nobody removes it either
    // Another process may have taken the lock first, and removed the folder.
    struct stat opened {
    }, named{};
    if (::fstat(lock_, &opened) == 0 && ::lstat(temporary_.c_str(), &named) == 0 &&
        opened.st_ino == named.st_ino)
      return;
    unlock();
  }
}

void NewFolder::unlock() {
  if (lock_ >= 0) ::close(std::exchange(lock_, -1));
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
  unlock();
  claims().give_back(claim_);
}

void NewFolder::commit() {
  const std::string aside = cat(path_, ".old.", getpid());
  std::error_code error, ignored;
  bool replaces = false;
  if (overwrite_ && fs::exists(path_, ignored)) {
    fs::remove_all(aside, ignored);
    fs::rename(path_, aside, error);
    replaces = !error;
  }
  if (!error) fs::rename(temporary_, path_, error);
  if (error) {
    if (replaces) fs::rename(aside, path_, ignored);
    runtime_failure("cannot rename ", banyan::quoted(temporary_), " to ", banyan::quoted(path_), ": ",
                    error.message());
  }
  temporary_.clear();
  unlock();
  claims().give_back(std::exchange(claim_, ""));
  if (replaces) fs::remove_all(aside, ignored);
}

}  // namespace banyan::data

#include "live/page_feed.hpp"

#include <algorithm>

#include "banyan/metrics/json_lines.hpp"

namespace banyan::live {

PageFeed::PageFeed(const std::string& name, const std::string& folder, bool resumes) : run_(name, folder) {
  if (resumes && !folder.empty()) run_.take_file();
}

void PageFeed::write(const metrics::Record& record) {
  const std::string line = metrics::json_line(record);
  if (line.empty()) return;
  const std::lock_guard lock(mutex_);
  run_.take(line);
  ++version_;
  changed_.notify_all();
}

const std::string& PageFeed::newest() {
  if (json_version_ == version_) return json_;
  const Clock::time_point begin = Clock::now();
  json_ = run_.json();
  json_version_ = version_;
  const Clock::time_point end = Clock::now();
  next_ = end + std::max<Clock::duration>(kLeastPause, kPausePerWork * (end - begin));
  return json_;
}

std::string PageFeed::page() {
  const std::lock_guard lock(mutex_);
  asked_ = Clock::now();
  // Somebody may load the page again and again.
  const std::string& run = json_version_ >= 0 && !json_.empty() && asked_ < next_ ? json_ : newest();
  if (!run.empty()) {
    given_ = json_version_;
    return report::live_page_of(run, json_version_);
  }
  return "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" "
         "content=\"1\">"
         "<title>Banyan</title><p>The run is being set up.</p></html>";
}

std::string PageFeed::later_than(std::int64_t after) {
  std::unique_lock lock(mutex_);
  ++waiting_;
  const std::int64_t number = ++came_;
  changed_.notify_all();
  const Clock::time_point patience = Clock::now() + kPatience;
  for (;;) {
    const Clock::time_point now = Clock::now();
    if (ended_ || now >= patience || (version_ > after && now >= next_)) break;
    if (came_ - number >= kMostWaiting) break;
    changed_.wait_until(lock, version_ > after ? std::min(next_, patience) : patience);
  }
  --waiting_;
  asked_ = Clock::now();
  std::string data;
  const bool is_new = version_ > after && asked_ >= next_;
  if ((is_new || ended_) && !newest().empty()) {
    data = report::live_data(json_, json_version_, ended_);
    given_ = json_version_;
  }
  changed_.notify_all();
  return data;
}

void PageFeed::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void PageFeed::wait_for_readers(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  const Clock::time_point now = Clock::now();
  constexpr std::chrono::seconds kLately{3};
  if (waiting_ == 0 && now - asked_ > kLately) return;
  changed_.wait_until(lock, now + patience, [this] { return waiting_ == 0 && given_ == version_; });
}

}  // namespace banyan::live

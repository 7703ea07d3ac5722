#include "banyan/data/window_list.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/image_codec.hpp"
#include "banyan/io/atomic_file.hpp"
#include "data/list_words.hpp"
#include "data/open_once.hpp"

namespace banyan::data {

namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 32;

void read_window(ListWords& words, std::uint32_t image, float foreground, float background,
                 WindowList& list) {
  ObjectWindow window;
  window.image = image;
  window.label = words.number<std::int32_t>("the window's label");
  const auto overlap = words.number<float>("the window's overlap");
  window.x1 = words.number<int>("the window's x1");
  window.y1 = words.number<int>("the window's y1");
  window.x2 = words.number<int>("the window's x2");
  window.y2 = words.number<int>("the window's y2");
  const WindowList::ListedFile& in = list.images[image];
  const auto inside = [](int from, int to, int length) { return 0 <= from && from <= to && to < length; };
  if (!inside(window.x1, window.x2, in.width) || !inside(window.y1, window.y2, in.height))
    words.fail(cat("a window inside of the image of ", in.height, " x ", in.width),
               cat("x ", window.x1, " to ", window.x2, ", y ", window.y1, " to ", window.y2));
  if (overlap >= foreground) {
    if (window.label <= 0) words.fail("a positive label of a foreground window", cat(window.label));
    list.foreground.push_back(window);
  } else if (overlap < background) {
    window.label = 0;
    list.background.push_back(window);
  }
}

}  // namespace

WindowList read_window_list(const std::string& path, float foreground, float background) {
  const std::string text = io::read_file(path, kLargestFile);
  ListWords words(text, path);
  WindowList list;
  while (!words.done()) {
    WindowList::ListedFile image;
    image.path = read_listed_path(words);
    const ListedSize size = read_listed_size(words);
    image.height = size.height;
    image.width = size.width;
    list.images.push_back(std::move(image));
    const auto windows = words.number<std::uint32_t>("the number of windows");
    for (std::uint32_t i = 0; i < windows; ++i)
      read_window(words, static_cast<std::uint32_t>(list.images.size() - 1), foreground, background, list);
  }
  if (list.images.empty()) bad_input(banyan::quoted(path), " lists no images");
  return list;
}

namespace {

/// Shared by the sources of a process: the list, and image files that were read.
class Windows {
 public:
  Windows(const std::string& path, float foreground, float background)
      : list_(read_window_list(path, foreground, background)) {}
  const WindowList& list() const { return list_; }
  std::shared_ptr<const std::string> file(std::uint32_t image, const std::string& path, bool keep) const {
    if (keep) {
      const std::lock_guard lock(mutex_);
      if (const auto found = kept_.find(image); found != kept_.end()) return found->second;
    }
    auto bytes = std::make_shared<const std::string>(io::read_file(path, kLargestFile));
    if (keep) {
      const std::lock_guard lock(mutex_);
      kept_.emplace(image, bytes);
    }
    return bytes;
  }

 private:
  WindowList list_;
  mutable std::mutex mutex_;
  mutable std::map<std::uint32_t, std::shared_ptr<const std::string>> kept_;
};

std::shared_ptr<const Windows> windows_of(const std::string& path, const WindowOptions& options) {
  return open_once<const Windows>(
      cat(options.fg_threshold, " ", options.bg_threshold, " ", options.root_folder, "\n", path),
      [&] { return std::make_shared<const Windows>(path, options.fg_threshold, options.bg_threshold); });
}

class WindowSource : public RecordSource, public std::enable_shared_from_this<WindowSource> {
 public:
  WindowSource(const std::string& path, const WindowOptions& options)
      : path_(path),
        options_(options),
        foreground_(static_cast<std::uint64_t>(static_cast<float>(options.batch) * options.fg_fraction)),
        windows_(windows_of(path, options)) {
    const auto need = [&](const char* kind, const std::vector<ObjectWindow>& found, std::uint64_t wanted) {
      if (wanted > 0 && found.empty())
        bad_input(name(), " holds no ", kind, " windows, but every batch of ", options_.batch, " needs ",
                  wanted, " (fg_threshold ", options_.fg_threshold, ", bg_threshold ", options_.bg_threshold,
                  ", fg_fraction ", options_.fg_fraction, ")");
    };
    need("foreground", list().foreground, foreground_);
    need("background", list().background, options_.batch - foreground_);
  }

  /// There is no end; far more than any run needs.
  std::uint64_t size() const override { return std::uint64_t{1} << 62; }
  std::string name() const override { return "window file " + banyan::quoted(path_); }
  std::unique_ptr<RecordReader> reader() const override;

  const WindowList& list() const { return windows_->list(); }
  const ObjectWindow& draw(std::uint64_t item) const {
    const bool background = item % options_.batch < options_.batch - foreground_;
    const std::vector<ObjectWindow>& from = background ? list().background : list().foreground;
    const ops::Philox4 draw = ops::philox(options_.key.key(), item, 0);
    return from[(static_cast<std::uint64_t>(draw.v[1]) << 32 | draw.v[0]) % from.size()];
  }
  std::string path_of(const ObjectWindow& window) const {
    return options_.root_folder + list().images[window.image].path;
  }
  std::shared_ptr<const std::string> file(const ObjectWindow& window) const {
    return windows_->file(window.image, path_of(window), options_.cache_images);
  }

 private:
  std::string path_;
  WindowOptions options_;
  std::uint64_t foreground_;  // items of a batch
  std::shared_ptr<const Windows> windows_;
};

class WindowReader : public RecordReader {
 public:
  explicit WindowReader(std::shared_ptr<const WindowSource> source) : source_(std::move(source)) {}

  void fetch(std::uint64_t position, Record& record) override {
    const ObjectWindow& window = source_->draw(position);
    file_ = source_->file(window);
    record.stored = *file_;
    record.label = window.label;
    record.window = {window.x1, window.y1, window.x2, window.y2};
    image_ = &source_->list().images[window.image];
  }
  void decode(Record& record) override {
    decode_image(reinterpret_cast<const std::uint8_t*>(record.stored.data()), record.stored.size(),
                 ColorMode::bgr, record.image);
    const Image& image = record.image;
    if (image.height != image_->height || image.width != image_->width)
      bad_input("the window file says ", image_->height, " x ", image_->width, ", but the image is ",
                image.height, " x ", image.width);
    record.show_image();
  }
  std::string describe(std::uint64_t position) override {
    return cat(source_->name(), ", image ", banyan::quoted(source_->path_of(source_->draw(position))));
  }

 private:
  std::shared_ptr<const WindowSource> source_;
  std::shared_ptr<const std::string> file_;
  const WindowList::ListedFile* image_ = nullptr;
};

std::unique_ptr<RecordReader> WindowSource::reader() const {
  return std::make_unique<WindowReader>(shared_from_this());
}

}  // namespace

std::shared_ptr<RecordSource> open_window_list(const std::string& path, const WindowOptions& options) {
  return std::make_shared<WindowSource>(path, options);
}

}  // namespace banyan::data

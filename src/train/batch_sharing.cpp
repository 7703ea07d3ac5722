#include "banyan/train/batch_sharing.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/data/prefetcher.hpp"
#include "banyan/parallel/questions.hpp"

namespace banyan {
namespace {

using data::HostBatch;
using data::OfferedSource;
using data::WantedShare;

constexpr int kMostThreads = 8;
/// Readers that are kept: each begins where it ended, which an LMDB needs in order to be read quickly.
constexpr std::size_t kMostReaders = 1024;
constexpr std::chrono::seconds kPatience{1};  // for reads that do not end, at the end

enum class Request : std::uint8_t { describe, fetch };

/// Bytes of plain values one after the other. All processes run the same build.
class Packer {
 public:
  template <class T>
  void add(const T& value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void add_text(const std::string& text) {
    add(text.size());
    text_ += text;
  }
  void add_bytes(const void* bytes, std::size_t count) {
    text_.append(static_cast<const char*>(bytes), count);
  }
  void add_shapes(const std::vector<Shape>& shapes) {
    add(shapes.size());
    for (const Shape& shape : shapes) {
      add(static_cast<std::size_t>(shape.axes()));
      for (const std::int64_t axis : shape.dims()) add(axis);
    }
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

class Unpacker {
 public:
  explicit Unpacker(const std::string& text) : text_(text) {}
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, bytes(sizeof value), sizeof value);
    return value;
  }
  std::string get_text() {
    const auto count = get<std::size_t>();
    return {bytes(count), count};
  }
  std::vector<Shape> get_shapes() {
    std::vector<Shape> shapes;
    for (auto left = get<std::size_t>(); left > 0; --left) {
      std::vector<std::int64_t> dims;
      for (auto axes = get<std::size_t>(); axes > 0; --axes) dims.push_back(get<std::int64_t>());
      shapes.emplace_back(std::move(dims));
    }
    return shapes;
  }
  const char* bytes(std::size_t count) {
    if (count > text_.size() - at_) runtime_failure("a message about data sets arrived damaged");
    return text_.data() + std::exchange(at_, at_ + count);
  }

 private:
  const std::string& text_;
  std::size_t at_ = 0;
};

std::string packed_error(const Error& error) {
  Packer packer;
  packer.add(false);
  packer.add(error.kind());
  packer.add_text(error.what());
  return packer.take();
}

/// Process 0's part.
class BatchServer {
 public:
  BatchServer(int threads) : state_(std::make_shared<State>()) {
    for (int i = 0; i < threads; ++i) {
      state_->running++;
      std::thread([state = state_] { state->work(); }).detach();
    }
  }
  /// Threads whose reads do not end are left behind with what they use.
  ~BatchServer() {
    std::unique_lock<std::mutex> lock(state_->mutex);
    state_->ending = true;
    state_->changed.notify_all();
    state_->changed.wait_for(lock, kPatience, [&] { return state_->running == 0; });
  }
  BatchServer(const BatchServer&) = delete;
  BatchServer& operator=(const BatchServer&) = delete;

  void offer(const std::string& what, const data::InputPipeline& pipeline) {
    std::vector<parallel::Questions::Reply> waiting;
    std::string description;
    {
      const std::lock_guard<std::mutex> lock(state_->mutex);
      if (!state_->offered.emplace(what, pipeline).second) return;
      description = describe(pipeline);
      waiting.swap(state_->waiting[what]);
    }
    for (const auto& reply : waiting) reply(description);
  }

  void answer(int process, std::string question, parallel::Questions::Reply reply) {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->asked.push_back({process, std::move(question), std::move(reply)});
    state_->changed.notify_one();
  }

 private:
  struct Question {
    int process = 0;
    std::string text;
    parallel::Questions::Reply reply;
  };
  struct Reader {
    std::mutex mutex;
    std::unique_ptr<data::BatchAssembler> assembler;
    std::uint64_t used = 0;
  };

  static std::string describe(const data::InputPipeline& pipeline) {
    Packer packer;
    packer.add(true);
    packer.add_text(pipeline.source->name());
    packer.add(pipeline.source->size());
    const std::vector<std::uint64_t> parts = pipeline.source->parts();
    packer.add(parts.size());
    for (const std::uint64_t part : parts) packer.add(part);
    packer.add_shapes(pipeline.assembly.empty_item);
    packer.add(pipeline.writer->row_length());
    return packer.take();
  }

  /// Shared with the threads.
  struct State {
    void work() {
      ::pthread_setname_np(::pthread_self(), "share_data");
      device->make_current_for_helper();
      HostBatch batch;
      std::unique_lock<std::mutex> lock(mutex);
      for (;;) {
        changed.wait(lock, [this] { return ending || !asked.empty(); });
        if (ending) break;
        Question question = std::move(asked.front());
        asked.pop_front();
        lock.unlock();
        try {
          answer(question, batch);
        } catch (const Error& error) {
          question.reply(packed_error(error));
        } catch (const std::exception& error) {
          question.reply(packed_error(Error(ErrorKind::runtime, error.what())));
        }
        lock.lock();
      }
      --running;
      changed.notify_all();
    }

    void answer(Question& question, HostBatch& batch) {
      Unpacker unpacker(question.text);
      const auto kind = unpacker.get<Request>();
      const std::string what = unpacker.get_text();
      if (kind == Request::describe) {
        std::string description;
        {
          const std::lock_guard<std::mutex> lock(mutex);
          const auto found = offered.find(what);
          if (found == offered.end()) {
            waiting[what].push_back(question.reply);
            return;
          }
          description = describe(found->second);
        }
        question.reply(std::move(description));
        return;
      }
      const auto number = unpacker.get<std::uint64_t>();
      batch.share = unpacker.get<data::Share>();
      const auto dtype = unpacker.get<DType>();
      const auto layout = unpacker.get<Layout>();
      const std::shared_ptr<Reader> reader = reader_for({question.process, number}, what, dtype, layout);
      {
        const std::lock_guard<std::mutex> lock(reader->mutex);
        (*reader->assembler)(batch);
      }
      Packer packer;
      packer.add(true);
      std::vector<Shape> shapes;
      for (const HostBatch::Array& array : batch.arrays) shapes.push_back(array.shape);
      packer.add_shapes(shapes);
      for (const HostBatch::Array& array : batch.arrays)
        packer.add_bytes(array.memory.get(), static_cast<std::size_t>(array.shape.count()) * size_of(dtype));
      question.reply(packer.take());
    }

    std::shared_ptr<Reader> reader_for(std::pair<int, std::uint64_t> key, const std::string& what,
                                       DType dtype, Layout layout) {
      const std::lock_guard<std::mutex> lock(mutex);
      std::shared_ptr<Reader>& reader = readers[key];
      if (!reader) {
        const auto found = offered.find(what);
        if (found == offered.end()) runtime_failure("process 0 has no data set ", what);
        const data::InputPipeline& from = found->second;
        data::AssemblerOptions assembly = from.assembly;
        assembly.dtype = dtype;
        assembly.layout = layout;
        assembly.items = nullptr;
        reader = std::make_shared<Reader>();
        reader->assembler = std::make_unique<data::BatchAssembler>(memory, from.dealing, from.source,
                                                                   from.order, from.writer, assembly);
      }
      reader->used = ++uses;
      const std::shared_ptr<Reader> wanted = reader;
      if (readers.size() > kMostReaders)
        readers.erase(std::min_element(readers.begin(), readers.end(), [](const auto& a, const auto& b) {
          return a.second->used < b.second->used;
        }));
      return wanted;
    }

    std::unique_ptr<Device> device = make_cpu_device(0);
    std::shared_ptr<data::HostMemory> memory = std::make_shared<data::HostMemory>(*device);
    std::mutex mutex;
    std::condition_variable changed;
    int running = 0;
    bool ending = false;
    std::map<std::string, data::InputPipeline> offered;
    std::map<std::string, std::vector<parallel::Questions::Reply>> waiting;  ///< for an offer
    std::deque<Question> asked;
    std::map<std::pair<int, std::uint64_t>, std::shared_ptr<Reader>> readers;  ///< of process and thread
    std::uint64_t uses = 0;
  };

  std::shared_ptr<State> state_;
};

class BatchSharing : public data::SharedBatches {
 public:
  explicit BatchSharing(parallel::WireUplink& uplink) {
    const parallel::UplinkPlace& place = uplink.place();
    if (place.process == 0)
      server_ = std::make_shared<BatchServer>(std::clamp(place.processes() - 1, 1, kMostThreads));
    questions_ = std::make_shared<parallel::Questions>(
        [server = server_](int process, std::string question, parallel::Questions::Reply reply) {
          server->answer(process, std::move(question), std::move(reply));
        });
    uplink.carry(questions_);
  }

  bool has_data() const override { return server_ != nullptr; }
  void end() override { ended_ = true; }

  void offer(const std::string& what, const data::InputPipeline& pipeline) override {
    server_->offer(what, pipeline);
  }

  OfferedSource describe(const std::string& what) override {
    Packer packer;
    packer.add(Request::describe);
    packer.add_text(what);
    const std::string answer = ask(packer.take(), [] { return false; });
    Unpacker unpacker = opened(answer);
    OfferedSource offered;
    offered.name = unpacker.get_text();
    offered.records = unpacker.get<std::uint64_t>();
    for (auto parts = unpacker.get<std::size_t>(); parts > 0; --parts)
      offered.parts.push_back(unpacker.get<std::uint64_t>());
    offered.item = unpacker.get_shapes();
    offered.row_length = unpacker.get<std::int64_t>();
    return offered;
  }

  void fetch(const WantedShare& wanted, HostBatch& batch, data::HostMemory& memory,
             const Cancelled& cancelled) override {
    Packer packer;
    packer.add(Request::fetch);
    packer.add_text(wanted.what);
    packer.add(wanted.reader);
    packer.add(wanted.share);
    packer.add(wanted.dtype);
    packer.add(wanted.layout);
    const std::string answer = ask(packer.take(), cancelled);
    Unpacker unpacker = opened(answer);
    const std::vector<Shape> shapes = unpacker.get_shapes();
    batch.arrays.resize(shapes.size());
    for (std::size_t k = 0; k < shapes.size(); ++k) {
      HostBatch::Array& array = batch.arrays[k];
      array.shape = shapes[k];
      const std::size_t bytes = static_cast<std::size_t>(array.shape.count()) * size_of(wanted.dtype);
      memory.reserve(bytes, array.memory, array.capacity);
      const char* from = unpacker.bytes(bytes);
      if (bytes > 0) std::memcpy(array.memory.get(), from, bytes);
    }
  }

 private:
  std::string ask(std::string question, const Cancelled& cancelled) {
    return questions_->ask(std::move(question), [&] { return ended_ || cancelled(); });
  }

  /// What reading it threw in process 0 is thrown here.
  static Unpacker opened(const std::string& answer) {
    Unpacker unpacker(answer);
    if (unpacker.get<bool>()) return unpacker;
    const auto kind = unpacker.get<ErrorKind>();
    Error error(kind, unpacker.get_text());
    error.add_context("while process 0 read it for this one");
    throw error;
  }

  std::shared_ptr<BatchServer> server_;  ///< process 0's
  std::shared_ptr<parallel::Questions> questions_;
  std::atomic<bool> ended_{false};
};

}  // namespace

std::shared_ptr<data::SharedBatches> share_batches(parallel::WireUplink& uplink) {
  return std::make_shared<BatchSharing>(uplink);
}

}  // namespace banyan

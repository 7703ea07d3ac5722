#include "layers/python_batches.hpp"

#include <algorithm>
#include <cstring>

namespace banyan {

PythonBatches::PythonBatches(const PythonProgramOptions& options, int devices)
    : options_(options), devices_(devices) {}

std::shared_ptr<PythonBatches> PythonBatches::shared(const std::string& key,
                                                     const PythonProgramOptions& options, int devices) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<PythonBatches>> all;
  const std::lock_guard lock(mutex);
  std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<PythonBatches> found = all[key].lock();
  if (!found) all[key] = found = std::make_shared<PythonBatches>(options, devices);
  return found;
}

void PythonBatches::join(int rank) {
  const std::lock_guard lock(mutex_);
  joined_[rank] = 0;
}

/// After a failure there are no more batches, for any device.
template <class Work>
auto PythonBatches::noting_failures(const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    failure_ = error;
    throw;
  } catch (const std::exception& error) {
    failure_.emplace(ErrorKind::runtime, error.what());
    throw;
  }
}

PythonProgram& PythonBatches::program() {
  if (failure_) throw Error(*failure_);
  if (program_) return *program_;
  noting_failures([&] {
    auto made = make_python_program(options_);
    made->set_up({});
    if (!made->shapes(PythonBlobs::parameters).empty())
      bad_input("layer ", quoted(options_.name),
                " (Python) brings data and has parameters: only a layer with "
                "inputs can have them");
    made->reshape({});
    program_ = std::move(made);
  });
  return *program_;
}

std::vector<Shape> PythonBatches::first_shapes() {
  const std::lock_guard lock(mutex_);
  return program().shapes(PythonBlobs::outputs);
}

void PythonBatches::begin_turns(std::uint64_t first) {
  const std::lock_guard lock(mutex_);
  if (turns_.back() < first) turns_.push_back(first);
  // Those of batches that everybody has had are not asked for again.
  while (turns_.size() > 1 && turns_[1] <= next_ && made_.empty()) turns_.erase(turns_.begin());
}

int PythonBatches::turn_of(std::uint64_t number) const {
  const auto after = std::upper_bound(turns_.begin(), turns_.end(), number);
  return static_cast<int>((number - *(after - 1)) % static_cast<std::uint64_t>(devices_));
}

void PythonBatches::skip(int rank, std::uint64_t end) {
  const std::lock_guard lock(mutex_);
  joined_[rank] = end;
  std::erase_if(made_, [&](const auto& entry) { return entry.first < end && turn_of(entry.first) == rank; });
}

PythonBatches::Batch PythonBatches::make() {
  PythonProgram& program = this->program();
  return noting_failures([&] {
    program.reshape({});
    program.forward();
    Batch batch;
    for (const Shape& shape : program.shapes(PythonBlobs::outputs)) {
      Array& array = batch.emplace_back();
      array.shape = shape;
      array.values.resize(static_cast<std::size_t>(shape.count()) * size_of(options_.dtype));
      if (!array.values.empty())
        std::memcpy(array.values.data(), program.data(PythonBlobs::outputs, batch.size() - 1, shape.count()),
                    array.values.size());
    }
    return batch;
  });
}

PythonBatches::Batch PythonBatches::take(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  while (next_ <= number) {
    Batch batch = make();
    const auto owner = joined_.find(turn_of(next_));
    if (owner != joined_.end() && next_ >= owner->second) made_[next_] = std::move(batch);
    ++next_;
  }
  const auto found = made_.find(number);
  if (found == made_.end())
    runtime_failure("layer ", quoted(options_.name), " (Python): batch ", number, " was taken before");
  Batch batch = std::move(found->second);
  made_.erase(found);
  return batch;
}

}  // namespace banyan

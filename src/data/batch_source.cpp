#include "banyan/data/batch_source.hpp"

namespace banyan::data {

std::unique_ptr<Prefetcher> InputPipeline::start(Device& device, const Schedule& schedule) const {
  // The threads own copies of all that they use.
  const auto make_fill = [pipeline = *this, device = &device]() -> Prefetcher::Fill {
    auto assembler = std::make_shared<BatchAssembler>(*device, pipeline.dealing, pipeline.source,
                                                      pipeline.order, pipeline.augmenter, pipeline.assembly);
    return [assembler](HostBatch& batch) { (*assembler)(batch); };
  };
  return std::make_unique<Prefetcher>(device, schedule, make_fill, prefetch);
}

}  // namespace banyan::data

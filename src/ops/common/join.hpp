// join_blocks, split_blocks: on the CPU the whole is swept over once, on a GPU there is a launch per part.
#pragma once

#include <numeric>

#include "banyan/ops/join.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"

namespace banyan::ops {
namespace detail {

template <class Backend, class Element>
void copy_all(Context& context, std::int64_t blocks, const std::vector<BlockStream<Element>>& streams) {
  if constexpr (requires { Backend::copy_streams(context, blocks, streams); })
    Backend::copy_streams(context, blocks, streams);
  else
    for (const BlockStream<Element>& s : streams)
      Backend::copy_blocks(context, s.from, s.to, {blocks, s.length, 0, s.from_stride, 0, s.to_stride});
}

/// Calls use(number of the part, its length, offset in a block of the whole, that block's length) for all
/// parts that are there.
template <class Part, class Use>
void for_each_part(const char* op, const Tensor& whole, const BlockParts& what,
                   const std::vector<Part*>& parts, const Use& use) {
  if (parts.size() != what.lengths.size())
    runtime_failure(op, ": ", parts.size(), " parts, ", what.lengths.size(), " lengths");
  const std::int64_t block = std::accumulate(what.lengths.begin(), what.lengths.end(), std::int64_t{0});
  require_count(op, whole, what.blocks * block);
  std::int64_t offset = 0;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (parts[k] != nullptr) {
      require_type(op, *parts[k], whole.dtype());
      require_count(op, *parts[k], what.blocks * what.lengths[k]);
      if (what.lengths[k] > 0) use(k, what.lengths[k], offset, block);
    }
    offset += what.lengths[k];
  }
}

}  // namespace detail

template <class Backend>
void join_blocks_on(Context& context, const std::vector<const Tensor*>& parts, const BlockParts& what,
                    Tensor& whole) {
  dispatch_size(whole.dtype(), [&]<class Element>() {
    std::vector<BlockStream<Element>> streams;
    auto* const to = static_cast<Element*>(whole.raw());
    detail::for_each_part("join_blocks", whole, what, parts,
                          [&](std::size_t k, std::int64_t length, std::int64_t offset, std::int64_t block) {
                            streams.push_back({static_cast<const Element*>(parts[k]->raw()), to + offset,
                                               length, length, block});
                          });
    detail::copy_all<Backend>(context, what.blocks, streams);
  });
}

template <class Backend>
void split_blocks_on(Context& context, const Tensor& whole, const BlockParts& what,
                     const std::vector<Tensor*>& parts) {
  dispatch_size(whole.dtype(), [&]<class Element>() {
    std::vector<BlockStream<Element>> streams;
    const auto* const from = static_cast<const Element*>(whole.raw());
    detail::for_each_part(
        "split_blocks", whole, what, parts,
        [&](std::size_t k, std::int64_t length, std::int64_t offset, std::int64_t block) {
          streams.push_back({from + offset, static_cast<Element*>(parts[k]->raw()), length, block, length});
        });
    detail::copy_all<Backend>(context, what.blocks, streams);
  });
}

template <class Backend>
struct DefineJoin {
  DefineJoin() {
    join_blocks.define(Backend::kind, &join_blocks_on<Backend>);
    split_blocks.define(Backend::kind, &split_blocks_on<Backend>);
  }
};

}  // namespace banyan::ops

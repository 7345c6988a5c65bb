// decant/model/detail/adapt.hpp - what adapters add to a product of a layer, for their own rows.
//
// Rows that have an adapter are cut into runs of one sequence each, once a step. A run is one piece
// of work: it reduces its rows to A x and adds B (scale * A x) to what W gave, with buffers of its
// worker. So the adapters of a product take one parallel region, however many they are.
//
// Tested by   tests/model/adapter_test.cpp, tests/law/adapters_test.cpp
#pragma once

#include <decant/core/executor.hpp>
#include <decant/core/types.hpp>
#include <decant/kernels/product.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/adapter.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/detail/rows.hpp>
#include <decant/model/detail/step_buffers.hpp>
#include <decant/model/profile.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace decant::inline DECANT_ABI::model::detail {

// Lists the runs of a batch.
template <kv::Store S>
void list_adapted_rows(const Batch<S>& batch, AdapterBuffers& buffers) {
  buffers.runs.clear();
  for (const typename Batch<S>::Entry& entry : batch.entries()) {
    if (entry.adapter == nullptr) continue;
    const Index end = entry.first_row + entry.rows;
    for (Index row = entry.first_row; row < end; row += AdapterBuffers::kRunRows) {
      buffers.runs.push_back({entry.adapter, {row, std::min(row + AdapterBuffers::kRunRows, end)}});
    }
  }
}

// Adds one change to the rows of a run.
inline void add_change(const PackedChange& change, const kernels::Product& product,
                       const Range& rows, AdapterBuffers::Worker& worker) {
  const Index rank = change.a.rows();
  change.a.multiply({.rows = rows.size(),
                     .in = product.in + rows.begin * product.in_stride,
                     .in_stride = product.in_stride,
                     .out = worker.reduced.data(),
                     .out_stride = rank},
                    worker.tiles, serial_executor());
  for (float& element : elements(worker.reduced.data(), rows.size() * rank)) {
    element *= change.scale;
  }
  change.b.multiply({.rows = rows.size(),
                     .in = worker.reduced.data(),
                     .in_stride = rank,
                     .out = product.out + rows.begin * product.out_stride + change.first_output,
                     .out_stride = product.out_stride,
                     .add = true},
                    worker.tiles, serial_executor());
}

inline Work work_of(const PackedChange& change, Index rows) {
  const double weights = static_cast<double>(change.a.rows()) *
                         static_cast<double>(change.a.columns() + change.b.rows());
  return {static_cast<double>(change.a.bytes() + change.b.bytes()),
          2 * weights * static_cast<double>(rows)};
}

// Adds to the outputs of `product` what the adapters of its rows change.
inline void adapt(LayerProduct which, Index layer, const kernels::Product& product,
                  Workspace& workspace) {
  AdapterBuffers& adapters = buffers(workspace).adapters;
  const auto changes = [&](const AdapterBuffers::Run& run) {
    return run.adapter->changes(layer, which);
  };
  if (std::ranges::all_of(adapters.runs, [&](const auto& run) { return changes(run).empty(); })) {
    return;
  }
  const auto work = [&] {
    Work sum;
    for (const AdapterBuffers::Run& run : adapters.runs) {
      for (const PackedChange& change : changes(run)) {
        const Work one = work_of(change, run.rows.size());
        sum.bytes += one.bytes;
        sum.flops += one.flops;
      }
    }
    return sum;
  };
  const auto adapt_run = [&](Index item, Index worker) {
    const AdapterBuffers::Run& run = adapters.runs[static_cast<std::size_t>(item)];
    for (const PackedChange& change : changes(run)) {
      add_change(change, product, run.rows, adapters.workers[static_cast<std::size_t>(worker)]);
    }
  };
  profiled(workspace.profile(), Operation::products, work,
           [&] { workspace.executor().parallel_for(std::ssize(adapters.runs), adapt_run); });
}

}  // namespace decant::inline DECANT_ABI::model::detail

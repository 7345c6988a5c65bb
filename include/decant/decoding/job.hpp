// decant/decoding/job.hpp - a request of a scheduler, and the rows that it has of a step.
//
// Depends on  decoding/{continuation,drafter,feeding,request}.hpp, kv/{block,paged}.hpp,
//             model/{batch,workspace}.hpp
// Source      Agrawal et al. 2023, "SARATHI", arXiv:2308.16369 (prompts beside decoding)
// Tested by   tests/decoding/scheduler{,_pages,_end}_test.cpp
#pragma once

#include <decant/codec/concept.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/decoding/continuation.hpp>
#include <decant/decoding/drafter.hpp>
#include <decant/decoding/feeding.hpp>
#include <decant/decoding/generation.hpp>
#include <decant/decoding/request.hpp>
#include <decant/decoding/statistics.hpp>
#include <decant/kv/page_pool.hpp>
#include <decant/kv/paged.hpp>
#include <decant/kv/prefix.hpp>
#include <decant/kv/store.hpp>
#include <decant/model/batch.hpp>
#include <decant/model/config.hpp>
#include <decant/model/workspace.hpp>

#include <algorithm>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace decant::inline v0::decoding {

namespace detail {

// A request that waits or runs.
template <codec::Codec K, codec::Codec V>
struct Job {
  Job(RequestId name, Request&& request, const model::Config& config, kv::PagePool<K, V>& pool,
      std::string_view who)
      : id(name),
        cache_namespace(request.cache_namespace),
        drafter(std::move(request.drafter)),
        sink(std::move(request.sink)),
        text(request.prompt, std::move(request.options), config, who),
        store(pool) {}

  // Tokens of its sequence that the store has not.
  Index lack() const noexcept { return std::ssize(text.sequence()) - store.end(); }
  // Rows of this step's step, and those of them that want logits.
  Index fed() const noexcept { return rows + std::ssize(drafts); }
  Index logits() const noexcept { return rows == lack() ? 1 + std::ssize(drafts) : 0; }

  RequestId id;
  kv::CacheNamespace cache_namespace;
  decltype(Request::drafter) drafter;
  decltype(Request::sink) sink;
  Continuation text;
  kv::Paged<K, V> store;      // empty while it waits
  Index rows = 0;             // of its sequence, in this step's step
  std::vector<Token> drafts;  // behind those
  std::vector<Token> fresh;   // tokens that this step brought
  bool cancelled = false;
  bool ran = false;
  Outcome outcome;
};

// A row for each of the running jobs that lack no more, and the others for prompts, in order; of
// these no more than `beside_decoding` where there are such jobs.
template <class Jobs>
void share_rows(Jobs& running, Index rows, Index beside_decoding) {
  bool decoding = false;
  for (auto& [place, job] : running) {
    job.drafts.clear();
    job.rows = job.lack() == 1 ? 1 : 0;
    rows -= job.rows;
    decoding = decoding || job.rows == 1;
  }
  if (decoding) rows = std::min(rows, beside_decoding);
  for (auto& [place, job] : running) {
    if (job.rows == 1) continue;
    job.rows = std::min(job.lack(), rows);
    rows -= job.rows;
  }
}

// Guesses behind the row of a job, `most` at most, and none where it is not so far.
//
// Errors   std::invalid_argument for guesses that are none; whatever the drafter throws
template <codec::Codec K, codec::Codec V>
void propose_drafts(Job<K, V>& job, Index most, const model::Config& config, std::string_view who) {
  most = std::min(most, job.text.left() - 1);
  if (!job.drafter || job.lack() != 1 || most <= 0) return;
  job.drafter(job.text.history(), most, job.drafts);
  expects(std::ssize(job.drafts) <= most, who, ": a drafter that guesses ", job.drafts.size(),
          " tokens where ", most, " are wanted");
  check_tokens(job.drafts, config, who, "drafts");
}

// Why a text ended, if it did, and with which error, if it failed.
struct Ending {
  std::optional<Reason> reason = {};
  std::exception_ptr error = {};
};

// Takes the tokens of a job whose rows of logits begin with `first`, and out of its store what was
// guessed and did not come; adds to the totals.
template <codec::Codec K, codec::Codec V>
Ending take_tokens(Job<K, V>& job, model::Workspace& workspace, Index first,
                   SchedulerStatistics& totals) {
  Statistics& own = job.text.statistics();
  const bool prompt = job.text.generated() == 0;
  const double decoded = own.decode_seconds;
  if (prompt) own.prefill_seconds = job.text.seconds() - job.outcome.queue_seconds;
  Ending ending;
  try {
    ending.reason = job.text.take(workspace, first, job.drafts, NoDrafts{}, [&](Token token) {
      job.fresh.push_back(token);
      return !job.sink || job.sink(token);
    });
  } catch (...) {
    ending = {Reason::failed, std::current_exception()};
  }
  const Position length = std::ssize(job.text.sequence());
  job.store.rewind(std::min(job.store.end(), job.text.ended() ? length : length - 1));
  totals.generated_tokens += std::ssize(job.fresh);
  totals.decode_seconds += own.decode_seconds - decoded;
  if (prompt && job.text.generated() > 0) {
    totals.answered += 1;
    totals.first_token_seconds += own.time_to_first_token;
  }
  return ending;
}

// The rows of running jobs, in order.
template <class Jobs, kv::Store S>
void fill(model::Batch<S>& batch, Jobs& running) {
  std::vector<Token> tokens;
  batch.clear();
  for (auto& [place, job] : running) {
    if (job.rows == 0) continue;
    const auto begin = job.text.sequence().begin() + job.store.end();
    tokens.assign(begin, begin + job.rows);
    tokens.insert(tokens.end(), job.drafts.begin(), job.drafts.end());
    const auto some = job.drafts.empty() ? model::Logits::last : model::Logits::all;
    batch.add(job.store, tokens, job.logits() > 0 ? some : model::Logits::none);
  }
}

}  // namespace detail

}  // namespace decant::inline v0::decoding

// tests/decoding/reuse_test.cpp - the cache of a sequence, in memory or from a file, is reused for
// the part that the next prompt has in common, as far as its window allows.
#include "decoding/models.hpp"
#include "files/written_files.hpp"
#include "law/models.hpp"

#include <decant/decoding/generate.hpp>
#include <decant/kv/layered.hpp>
#include <decant/kv/ring.hpp>
#include <decant/snapshots/fingerprint.hpp>
#include <decant/snapshots/snapshot.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace decant;
using codec::F32;

// Logits of the last token, behind what the store holds.
template <kv::Store S>
std::vector<float> last_logits(const model::Decoder& decoder, S& store,
                               std::span<const Token> prompt) {
  model::Workspace workspace(decoder.config(), {.rows = std::ssize(prompt)});
  model::Batch<S> batch;
  batch.add(store, prompt.subspan(static_cast<std::size_t>(store.end())));
  decoder.step(batch, workspace);
  const auto logits = workspace.logits(0);
  return {logits.begin(), logits.end()};
}

// Local layers of four tokens beside a global one hold 60 tokens; the next prompt begins with fewer
// of them. Its first new row sees back into the window, which must still be held.
TEST(Reuse, EndsWhereAWindowWasOverwritten) {
  trial::Family family = trial::windowed();
  family.config.windows = {4, 0, 4};
  const model::Decoder decoder = trial::decoder_of(family);
  const auto held = trial::random_tokens(family.config, 60, 1);
  const auto part = [&](Index layers) {
    kv::Geometry geometry = family.config.geometry();
    geometry.layers = layers;
    return geometry;
  };
  for (Position shared : {60, 58, 20, 0}) {
    kv::Layered store(family.config.windows, kv::Ring<F32>(part(2), 4, 1),
                      kv::Contiguous<F32>(part(1), 80));
    last_logits(decoder, store, held);
    std::vector<Token> prompt = trial::random_tokens(family.config, shared + 6, 2);
    std::copy_n(held.begin(), shared, prompt.begin());
    const bool whole = shared >= store.earliest_rewind();
    if (shared == 60) {
      EXPECT_TRUE(whole);
    } else if (shared == 20) {
      EXPECT_FALSE(whole);
      EXPECT_THROW(store.rewind(shared), CannotRewind);
      EXPECT_EQ(store.end(), 60);
    }
    store.rewind(whole ? shared : 0);
    kv::Contiguous<F32> cold(family.config.geometry(), 80);
    EXPECT_TRUE(
        trial::same_bits(last_logits(decoder, cold, prompt), last_logits(decoder, store, prompt)))
        << shared;
  }
}

// Twelve tokens saved and restored are not computed again.
TEST(Reuse, OfARestoredSequenceComputesOnlyNewTokens) {
  const model::Decoder decoder = reference::toy_decoder();
  const kv::Geometry geometry = decoder.config().geometry();
  const auto all = trial::random_tokens(decoder.config(), 14, 3);
  const std::span<const Token> saved = std::span(all).first(12);
  const trial::Folder folder;
  const auto file = folder.path() / "slot.decant";
  const std::string model = snapshots::fingerprint(decoder);
  {
    kv::Contiguous<F32> store(geometry, 20);
    last_logits(decoder, store, saved);
    snapshots::save_snapshot(file, store, saved, model);
  }
  const auto continued = [&](auto& store) {
    model::Workspace workspace(decoder.config(), {.rows = 14});
    return decoding::generate(decoder, store, workspace, all,
                              {.max_new_tokens = 4, .cached_tokens = store.end()});
  };
  kv::Contiguous<F32> restored(geometry, 20);
  snapshots::Snapshot::open(file).restore(restored, model);
  const auto warm = continued(restored);
  EXPECT_EQ(warm.statistics.prompt_tokens - warm.statistics.cached_tokens, 2);
  kv::Contiguous<F32> cold_store(geometry, 20);
  const auto cold = continued(cold_store);
  EXPECT_EQ(cold.statistics.cached_tokens, 0);
  EXPECT_EQ(warm.tokens, cold.tokens);
  kv::Contiguous<F32> again(geometry, 20);
  snapshots::Snapshot::open(file).restore(again, model);
  kv::Contiguous<F32> empty(geometry, 20);
  EXPECT_TRUE(trial::same_bits(last_logits(decoder, empty, all), last_logits(decoder, again, all)));
}

}  // namespace

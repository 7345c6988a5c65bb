# cmake -DPROGRAMS=folder -DMODEL=folder -DWORK=folder -P agreements.cmake: what must not depend on
# reuse, on threads or on how tokens are cut into steps does not.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})

# run(output program arguments...)
function(run output program)
  execute_process(COMMAND ${PROGRAMS}/${program} ${ARGN} WORKING_DIRECTORY ${WORK}
    RESULT_VARIABLE code OUTPUT_VARIABLE printed)
  if(code)
    message(FATAL_ERROR "${program} ${ARGN}: exit code ${code}")
  endif()
  set(${output} "${printed}" PARENT_SCOPE)
endfunction()

set(tokens "859 59 11 74 9 77 500 1023 0 1 2 3 4 5 6 7 8 9 10")
foreach(type f32 bf16 f16)
  set(prompt generate --prompt "JULIET:\nO " --max-new-tokens 40 --seed 7 --cache-type ${type})
  run(cached ${prompt})
  run(recomputed ${prompt} --recompute --threads 1)
  if(NOT cached STREQUAL recomputed)
    message(SEND_ERROR "${type}: cached:\n${cached}\nrecomputed:\n${recomputed}")
  endif()

  set(logits logits --model ${MODEL} --tokens ${tokens} --cache-type ${type})
  run(printed ${logits} --out whole.f32)
  run(printed ${logits} --out cut.f32 --chunks "1 15 3" --threads 1)
  file(SHA256 ${WORK}/whole.f32 whole)
  file(SHA256 ${WORK}/cut.f32 cut)
  file(SIZE ${WORK}/whole.f32 size)
  if(NOT whole STREQUAL cut OR NOT size EQUAL 77824)  # 19 tokens, 1,024 numbers, 4 bytes
    message(SEND_ERROR "${type}: logits in chunks differ, or are not 77824 bytes: ${size}")
  endif()
  if(whole IN_LIST seen)
    message(SEND_ERROR "${type}: the logits are those of another cache type")
  endif()
  list(APPEND seen ${whole})
endforeach()

#!/usr/bin/env bash
# What made the files of this folder, on one host with eight H200s: 14 models beside the compiler, nine cold searches.
# bash commands.sh LANES_RESULT, in the root of a checkout. Written down afterwards: the commands in it were run, this
# file was not.
export TORCHINDUCTOR_COMPILE_THREADS=8
beside=(beit_base coatnet_0 convnext_tiny deberta_v3 efficientnetv2_s eva02_tiny gemma_prefill graphsage gru_tagger
    lraspp lstm_language_model mamba2 mixtral opt_decode)
cold=(pegasus resnet50 segformer vae_decoder_block yolos_tiny gcn hubert_base resnet18_any_image pointnet_any_cloud)
bash benchmarks/lanes.sh 960 "$1" 16 'case $NAME in
    cold:*)
        CUDA_VISIBLE_DEVICES=${DEVICE#cuda:} python3 benchmarks/anytime.py "zoo/${NAME#cold:}" --run "runs/${NAME#cold:}" \
            --minutes 6 --precision half --device cuda --set engine.finalists=1 --set engine.baselines=[] \
            --set evaluate.max_timing_seconds=3 --set evaluate.threads=4 --out "$FILE"
        cp "runs/${NAME#cold:}"/*/result.json "${FILE%.jsonl}.result.json" ;;
    *)
        python3 benchmarks/zoo_beside.py "$FILE" benchmarks/trials/h200-x8-2026-11-27/zoo_half_cold.tar.xz "zoo/$NAME" \
            --device "$DEVICE" --ways compile compile:reduce-overhead compile:max-autotune cuda-graph ;;
    esac' "${beside[@]}" "${cold[@]/#/cold:}"

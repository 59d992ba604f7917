"""The thesis's numbers, one item a line, in the form of `grads.equations.papers`."""

NUMBERS = """
1.1: ~ the noisy channel
2.1: a sentence's probability, word by word
2.2: a recurrent unit in general
2.3: the vanilla recurrent unit
2.4: logits
2.5: distribution over words
2.6: softmax
2.7: loss of a corpus: sum over sentences
2.8: loss of a corpus: sum over sentences and words
2.9: gradient descent
2.10: Remark 1: product with a diagonal matrix
2.11: Lemma 1: gradient of h in v = f(W h)
2.12: Lemma 1: gradient of W in v = f(W h)
2.13: Corollary 1: gradient of h in v = W h
2.14: Corollary 1: gradient of W in v = W h
2.15: Remark 2: gradient of u in s = u o f(v)
2.16: Remark 2: gradient of v in s = u o f(v)
2.17: Remark 3: gradient of u in s = u o v
2.18: Remark 3: gradient of v in s = u o v
2.19: the loss of one word as a function of the logits
2.20: gradient at each logit
2.21: gradient at the logits
2.22: gradient of the hidden state from its prediction
2.23: gradient of the output weights
2.24: vanilla unit with one matrix
2.25: vanilla unit: gradient of the joined input
2.26: vanilla unit: gradient of the joined matrix
2.27: vanilla unit: gradient of its input
2.28: vanilla unit: gradient of the state before
2.29: vanilla unit: gradient of the input weights
2.30: vanilla unit: gradient of the recurrent weights
2.2.2 element-wise: element-wise clipping of dh at every step
2.2.2 norm: clipping of the gradient's norm
2.31: ~ a memory that only adds
2.32: ~ a state that is the memory
2.33: ~ a memory with input and forget gates, on the way to 2.36
2.34: ~ a state with an output gate, on the way to 2.37
2.35: LSTM: gates
2.36: LSTM: memory cell
2.37: LSTM: hidden state
2.38: LSTM: gates with one matrix
2.39: LSTM: that matrix in two blocks
2.40: LSTM as one function
2.41: LSTM: gradient of the output gate
2.42: LSTM: gradient of the memory cell
2.43: LSTM: gradient of the forget gate
2.44: LSTM: gradient of the cell before
2.45: LSTM: gradient of the input gate
2.46: LSTM: gradient of h_hat
2.47: LSTM: gradient of its input
2.48: LSTM: gradient of the state before
2.49: LSTM: gradient of the input weights
2.50: LSTM: gradient of the recurrent weights
2.51: log-probability of a translation
2.52: loss of a parallel corpus
2.3.2 beam: beam search
2.3.2 ensemble: averaged distributions of several models
Algorithm 1: backpropagation through time, vanilla unit
line 1: time from the last step down
line 2: gradient at the logits
line 3: output weights: add
line 4: hidden state: add what comes from the prediction
line 5: input weights: add
line 6: recurrent weights: add
line 7: gradient of the input
line 8: gradient of the state before
line 9: ~ end
Algorithm 2: backpropagation through time, LSTM
line 1: time from the last step down
line 2: ~ comment
line 3: gradient at the logits
line 4: output weights: add
line 5: hidden state: add what comes from the prediction
line 6: ~ comment
line 7: gradient of the output gate
line 8: memory cell: add what comes from the hidden state
line 9: gradient of the forget gate
line 10: gradient of the input gate
line 11: gradient of h_hat
line 12: gradient of the cell before
line 13: the four gradients joined
line 14: gradient of the input weights
line 15: gradient of the recurrent weights
line 16: ~ end
Algorithm 3: translation model, forward
line 1: source, start, target and end as one sequence
line 2: the encoder's weights
line 3: first states
line 4: time
line 5: the decoder's weights, from its first step on
line 6: ~ end
line 7: embedding
line 8: every layer, from the bottom
line 9: ~ end
line 10: prediction, in the decoder only
line 11: ~ end
line 12: ~ end
line 13: ~ end
line 14: ~ end
line 15: ~ end
Algorithm 4: translation model, backward
line 1: gradients of the last states
line 2: gradients of the weights
line 3: time, downwards
line 4: the step where the encoder begins
line 5: keep the decoder's gradients
line 6: begin the encoder's
line 7: ~ end
line 8: the decoder's steps
line 9: gradients of a prediction
line 10: top state: add what comes from the prediction
line 11: output weights: add
line 12: ~ end
line 13: every layer, from the top
line 14: gradients of one LSTM step
line 15: layer below: add what comes from above
line 16: weights: add
line 17: ~ end
line 18: embeddings: add to the rows of the words
line 19: ~ end
line 20: keep the encoder's gradients
Algorithm 5: greedy translation
line 1: run the encoder
line 2: time
line 3: start with the end marker
line 4: up to alpha times the source's length
line 5: one step through all layers
line 6: distribution over words
line 7: the most probable word
line 8: is it the end marker?
line 9: stop
line 10: ~ end
line 11: next step
line 12: ~ end
line 13: the words without the start
3.1: ~ a word's probability given the source
3.2: = 2.51
3.2.1 copyable: the model Copyable
3.2.2 posall: the model PosAll
3.2.3 posunk: the model PosUnk
4.1: = 2.51
4.2: = 2.5
4.3: = 2.2
4.4: = 2.52
4.5: attentional vector
4.6: distribution over words from it
4.7: alignment weights
4.2.1 dot: score dot
4.2.1 general: score general
4.2.1 concat: score concat
4.2.1 context: context vector
4.8: location-based alignment weights
4.2.2 local-m: window around t
4.9: local-p: predicted position
4.10: local-p: Gaussian around it
4.2.3 feeding: input feeding
5.1: = 2.51
5.2: = 2.5
5.3: = 2.52
5.4: = 4.5
5.5: loss of words and characters
5.6: first state of the character decoder
6.1.1 mixing: how often each task is trained
6.1: = 2.35
6.2: = 2.36
6.3: = 2.37
6.2.2 pruning: pruning by class
"""
